#include "daemon/base/clock.h"

#include <ctime>

namespace hugepool {
namespace {

absl::Time Read(clockid_t id) {
  timespec ts = {};
  clock_gettime(id, &ts);
  return absl::TimeFromTimespec(ts);
}

class RealClock : public Clock {
 public:
  absl::Time Now() const override { return Read(CLOCK_MONOTONIC); }
  absl::Time WallNow() const override { return Read(CLOCK_REALTIME); }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

}  // namespace hugepool
