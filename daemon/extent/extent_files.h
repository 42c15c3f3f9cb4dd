// From an extent to its memory: the HugeFile of each slot.
#ifndef HUGEPOOL_DAEMON_EXTENT_EXTENT_FILES_H_
#define HUGEPOOL_DAEMON_EXTENT_EXTENT_FILES_H_

#include <memory>
#include <vector>

#include "daemon/base/check.h"
#include "daemon/extent/ids.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool {

// Owns the HugeFiles. Thread-safety: an entry is touched only by whoever the
// pool's books make responsible for the extent at that time (the work item, or
// the grant); the pool's mutex, which every hand-over passes, orders the
// accesses. So there is no lock here.
class ExtentFiles {
 public:
  explicit ExtentFiles(uint32_t capacity) : files_(size_t{capacity} + 1) {}

  uint32_t capacity() const {
    return static_cast<uint32_t>(files_.size() - 1);
  }
  // nullptr: the extent has no descriptor (not made yet, or let go).
  sys::HugeFile* Get(SlotId slot) const { return files_[slot.value()].get(); }
  sys::HugeFile& Put(SlotId slot, std::unique_ptr<sys::HugeFile> file) {
    HP_CHECK(files_[slot.value()] == nullptr, "a slot has one file");
    files_[slot.value()] = std::move(file);
    return *files_[slot.value()];
  }
  // Takes it out; the caller closes it by letting it die.
  std::unique_ptr<sys::HugeFile> Remove(SlotId slot) {
    return std::move(files_[slot.value()]);
  }

 private:
  std::vector<std::unique_ptr<sys::HugeFile>> files_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_EXTENT_EXTENT_FILES_H_
