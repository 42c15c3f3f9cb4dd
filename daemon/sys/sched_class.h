// How the daemon's threads stand back for others: in the idle class (SCHED_IDLE) a
// thread gets only time that no other wants, and one that is nice gets a tenth of
// what another one gets.
#ifndef HUGEPOOL_DAEMON_SYS_SCHED_CLASS_H_
#define HUGEPOOL_DAEMON_SYS_SCHED_CLASS_H_

#include <sys/types.h>

#include "absl/status/status.h"

namespace hugepool::sys {

// The kernel's number of the calling thread.
pid_t ThisThread();

// Beside busy threads one of the idle class may not run for a second: it must
// hold no lock that others take, in the kernel neither. Thread-safe.
class SchedClass {
 public:
  virtual ~SchedClass() = default;
  // The idle class, for a thread of this process. A thread that says it of
  // itself steps back at once for whoever is ready: from the class alone the
  // kernel draws no conclusion before its next tick.
  virtual absl::Status SetIdle(pid_t thread) = 0;
  // Stays in the normal class, at ten more than the nice value of the process: runs
  // within milliseconds whatever others do, so it may hold the kernel's locks for a
  // short piece of work.
  virtual absl::Status SetNice(pid_t thread) = 0;
  // Back to the normal class and the nice value it had: of itself (which can
  // take until it gets time) or of another thread (which works at once).
  // PERMISSION_DENIED without CAP_SYS_NICE and with an RLIMIT_NICE below 20.
  virtual absl::Status SetNormal(pid_t thread) = 0;
};

class LinuxSchedClass : public SchedClass {
 public:
  // Threads go back to the nice value that the calling one has now.
  LinuxSchedClass();
  absl::Status SetIdle(pid_t thread) override;
  absl::Status SetNice(pid_t thread) override;
  absl::Status SetNormal(pid_t thread) override;

 private:
  const int nice_;
};

// Tries on a thread of its own whether one that went idle, or was nice, can be
// brought back: no other may go before this is OK. Starts and joins a thread.
absl::Status CanLeaveIdleClass(SchedClass& sched);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_SCHED_CLASS_H_
