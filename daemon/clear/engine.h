// Makes pages present and zero, at the speed of the memory.
#ifndef HUGEPOOL_DAEMON_CLEAR_ENGINE_H_
#define HUGEPOOL_DAEMON_CLEAR_ENGINE_H_

#include <functional>

#include "absl/status/status.h"
#include "daemon/base/units.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool {

// How much a job may disturb the rest of the machine.
enum class Pace {
  kBackground,  // within the cap on bandwidth
  kUrgent,      // as fast as it goes: somebody waits
};

// Knows spans of a file, never extents. Used by one steward at a time, but for
// Hurry() and Nudge().
class Engine {
 public:
  virtual ~Engine() = default;
  // Populates [from, to): the kernel zeroes. The file is mapped.
  virtual absl::Status Populate(sys::HugeFile& file, Bytes from, Bytes to,
                                Pace pace) = 0;
  // Zeroes [from, to) in place. The file is mapped and whole.
  virtual absl::Status Zero(sys::HugeFile& file, Bytes from, Bytes to,
                            Pace pace) = 0;
  // Somebody waits now: background jobs are urgent too, the one at hand included.
  // From any thread; cheap.
  virtual void Hurry() {}
  // There is other work for the caller of a job that waits because of the cap: it
  // does what `SetMeanwhile` gave it. From any thread; cheap.
  virtual void Nudge() {}
  // Before the first job. Called on the thread of the job's caller, between two
  // pieces, with no lock held; must not start a job.
  virtual void SetMeanwhile(std::function<void()> meanwhile) {}
  // Background jobs are that again. To be said *before* looking whether somebody
  // waits: who comes after that look says Hurry().
  virtual void Calm() {}
};

// Does it on the caller's thread in one piece: for tests on the fake.
class InlineEngine : public Engine {
 public:
  absl::Status Populate(sys::HugeFile& file, Bytes from, Bytes to,
                        Pace) override {
    return file.Populate(from, to - from);
  }
  absl::Status Zero(sys::HugeFile& file, Bytes from, Bytes to,
                    Pace) override {
    return file.Zero(from, to - from, nullptr);
  }
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_ENGINE_H_
