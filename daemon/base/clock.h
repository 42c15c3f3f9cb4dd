// Time as an argument: the core never asks for it, tests turn it by hand.
#ifndef HUGEPOOL_DAEMON_BASE_CLOCK_H_
#define HUGEPOOL_DAEMON_BASE_CLOCK_H_

#include "absl/time/time.h"
#include "daemon/base/mutex.h"

namespace hugepool {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back, does not follow changes of the wall clock. Its zero is
  // arbitrary: only differences mean something.
  virtual absl::Time Now() const = 0;
  // For people and for the wire.
  virtual absl::Time WallNow() const = 0;

  // CLOCK_MONOTONIC and CLOCK_REALTIME. Lives for ever.
  static Clock* Real();
};

class FakeClock : public Clock {
 public:
  absl::Time Now() const override {
    MutexLock lock(&mu_);
    return now_;
  }
  absl::Time WallNow() const override { return Now(); }
  void Advance(absl::Duration d) {
    MutexLock lock(&mu_);
    now_ += d;
  }

 private:
  mutable Mutex mu_;
  absl::Time now_ HP_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000);
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_CLOCK_H_
