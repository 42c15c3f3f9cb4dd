// Pages that a process keeps without a descriptor or a mapping.
#ifndef HUGEPOOL_TESTS_HARNESS_PINS_H_
#define HUGEPOOL_TESTS_HARNESS_PINS_H_

#include <liburing.h>

#include <cstdint>
#include <vector>

#include "daemon/base/unique_fd.h"

namespace hugepool::testing {

// The pins of one test_client.
class Pins {
 public:
  ~Pins() {
    if (ring_made) io_uring_queue_exit(&ring);
  }

  io_uring ring = {};
  bool ring_made = false;
  // Buffers that are registered: where they were mapped, for the ring's calls.
  std::vector<iovec> buffers;
  UniqueFd pipe_read;
  UniqueFd pipe_write;
  uint64_t piped = 0;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_PINS_H_
