// How much of its speed background work keeps while others wait for the
// machine.
#ifndef HUGEPOOL_DAEMON_CLEAR_BACK_OFF_H_
#define HUGEPOOL_DAEMON_CLEAR_BACK_OFF_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"

namespace hugepool {

// Halves the share with every look that finds pressure above the limit, down to
// a sixteenth; below the limit it grows by a sixteenth a second. As TCP does
// it: quickly out of the way, slowly back. A rest counts as time to grow.
//
// It never reaches nothing: the figure may be high for reasons of its own for
// days, and a pool that is never filled is of no use. Not thread-safe; is told
// the time.
class BackOff {
 public:
  static constexpr double kLeast = 1.0 / 16;
  static constexpr double kGrowth = 1.0 / 16;  // a second
  static constexpr absl::Duration kEvery = absl::Seconds(1);

  // Percent; nullopt: off.
  explicit BackOff(std::optional<double> limit) : limit_(limit) {}

  // From the next look on; off at once.
  void SetLimit(std::optional<double> limit) {
    limit_ = limit;
    if (!limit.has_value()) Forget();
  }
  bool on() const { return limit_.has_value(); }
  // Whether it is time to look again.
  bool Due(absl::Time now) const { return on() && now - looked_ >= kEvery; }
  // What was seen, in percent; nullopt: there is nobody to ask, so that nothing
  // is known to be in anybody's way.
  void Note(std::optional<double> pressure, absl::Time now) {
    if (!on()) return;
    const double rest = absl::ToDoubleSeconds(now - looked_);
    looked_ = now;
    pressure_ = pressure;
    share_ = pressure.value_or(0) > *limit_
                 ? std::max(share_ / 2, kLeast)
                 : std::min(share_ + rest * kGrowth, 1.0);
  }

  // kLeast to 1.
  double share() const { return share_; }
  // What the last look found.
  std::optional<double> pressure() const { return pressure_; }

 private:
  void Forget() {
    share_ = 1;
    pressure_ = std::nullopt;
    looked_ = absl::InfinitePast();
  }

  std::optional<double> limit_;
  std::optional<double> pressure_;
  double share_ = 1;
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_BACK_OFF_H_
