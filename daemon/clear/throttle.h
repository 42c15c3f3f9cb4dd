// A cap on how much is done a second.
#ifndef HUGEPOOL_DAEMON_CLEAR_THROTTLE_H_
#define HUGEPOOL_DAEMON_CLEAR_THROTTLE_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"
#include "daemon/base/units.h"

namespace hugepool {

// A leaky bucket in virtual time: each piece of work moves the time at which
// the next may begin. What was not used is lost, but for a little: after a rest
// work does not come in a burst. Not thread-safe; is told the time.
class Throttle {
 public:
  // So much may be made up for.
  static constexpr absl::Duration kBurst = absl::Milliseconds(10);

  // nullopt: no cap.
  explicit Throttle(std::optional<Bytes> per_second)
      : per_second_(per_second) {}

  bool capped() const { return per_second_.has_value(); }
  std::optional<Bytes> per_second() const { return per_second_; }
  // From the next Take() on. What was booked before no longer counts.
  void Set(std::optional<Bytes> per_second) {
    per_second_ = per_second;
    next_ = absl::InfinitePast();
  }

  // Books `work`; how long from `now` on to wait before it.
  absl::Duration Take(Bytes work, absl::Time now) {
    if (!per_second_.has_value()) return absl::ZeroDuration();
    next_ = std::max(next_, now - kBurst);
    const absl::Duration wait = std::max(next_ - now, absl::ZeroDuration());
    next_ += absl::Seconds(static_cast<double>(work.value()) /
                           static_cast<double>(per_second_->value()));
    return wait;
  }

 private:
  std::optional<Bytes> per_second_;
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_THROTTLE_H_
