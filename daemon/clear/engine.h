// Makes pages present and zero, at the speed of the memory.
#ifndef HUGEPOOL_DAEMON_CLEAR_ENGINE_H_
#define HUGEPOOL_DAEMON_CLEAR_ENGINE_H_

#include "absl/status/status.h"
#include "daemon/base/units.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool {

// Knows spans of a file, never extents. Used by one steward at a time.
class Engine {
 public:
  virtual ~Engine() = default;
  // Populates [from, to): the kernel zeroes. The file is mapped.
  virtual absl::Status Populate(sys::HugeFile& file, Bytes from, Bytes to) = 0;
  // Zeroes [from, to) in place. The file is mapped and whole.
  virtual absl::Status Zero(sys::HugeFile& file, Bytes from, Bytes to) = 0;
};

// Does it on the caller's thread in one piece: for tests on the fake.
class InlineEngine : public Engine {
 public:
  absl::Status Populate(sys::HugeFile& file, Bytes from, Bytes to) override {
    return file.Populate(from, to - from);
  }
  absl::Status Zero(sys::HugeFile& file, Bytes from, Bytes to) override {
    return file.Zero(from, to - from, nullptr);
  }
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_ENGINE_H_
