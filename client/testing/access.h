// Whether the process may touch an address: the kernel's word, without a fault.
#ifndef HUGEPOOL_CLIENT_TESTING_ACCESS_H_
#define HUGEPOOL_CLIENT_TESTING_ACCESS_H_

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "daemon/base/unique_fd.h"

namespace hugepool::testing {

inline bool IsReadable(const void* at) {
  const UniqueFd sink(memfd_create("sink", MFD_CLOEXEC));
  return pwrite(sink.get(), at, 1, 0) == 1;
}

// Where it may, the byte is 'x' afterwards.
inline bool IsWritable(void* at) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) std::abort();
  const UniqueFd source(ends[0]);
  const UniqueFd sink(ends[1]);
  if (write(sink.get(), "x", 1) != 1) std::abort();
  return read(source.get(), at, 1) == 1;
}

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_ACCESS_H_
