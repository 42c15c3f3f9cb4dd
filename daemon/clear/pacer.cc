#include "daemon/clear/pacer.h"

#include <algorithm>

namespace hugepool {
namespace {

// What a node's memory takes at least, where nothing is known of it.
constexpr Bytes kUnknownRate = GiB(4);
// Less would never fill a pool.
constexpr Bytes kLeastBandwidth = MiB(1);

}  // namespace

Pacer::Pacer(const Options& options)
    : options_(options),
      bandwidth_(options.bandwidth),
      back_off_(options.pressure_limit),
      throttle_(options.bandwidth) {}

void Pacer::Hurry() {
  MutexLock lock(&mu_);
  hurried_.store(true, std::memory_order_relaxed);
  turn_.SignalAll();
}

void Pacer::Calm() {
  MutexLock lock(&mu_);
  hurried_.store(false, std::memory_order_relaxed);
}

void Pacer::Cancel() {
  MutexLock lock(&mu_);
  cancelled_.store(true, std::memory_order_relaxed);
  turn_.SignalAll();
}

void Pacer::SetBandwidth(std::optional<Bytes> per_second) {
  MutexLock lock(&mu_);
  bandwidth_ = per_second;
  Apply();
}

void Pacer::SetPressureLimit(std::optional<double> percent) {
  MutexLock lock(&mu_);
  back_off_.SetLimit(percent);
  Apply();
}

bool Pacer::capped() const {
  MutexLock lock(&mu_);
  return throttle_.capped();
}

void Pacer::WaitForTurn(Bytes work) {
  MutexLock lock(&mu_);
  if (!throttle_.capped()) return;
  absl::Time now = options_.clock->Now();
  const absl::Time until = now + throttle_.Take(work, now);
  const uint64_t changes = changes_;
  while (now < until && !hurried() && !cancelled() && changes == changes_) {
    turn_.WaitFor(&mu_, until - now);
    now = options_.clock->Now();
  }
}

void Pacer::Look(double rate) {
  if (options_.pressure == nullptr) return;
  const absl::Time now = options_.clock->Now();
  {
    MutexLock lock(&mu_);
    if (!back_off_.Due(now)) return;
  }
  const std::optional<double> pressure = options_.pressure->Read();
  MutexLock lock(&mu_);
  const double before = back_off_.share();
  back_off_.Note(pressure, now);
  rate_ = rate;
  if (back_off_.share() != before) Apply();
}

bool Pacer::looks() const {
  MutexLock lock(&mu_);
  return options_.pressure != nullptr && back_off_.on();
}

Pacer::State Pacer::state() const {
  MutexLock lock(&mu_);
  return {.bandwidth = throttle_.per_second(),
          .share = back_off_.share(),
          .pressure = back_off_.pressure()};
}

void Pacer::Apply() {
  std::optional<Bytes> cap = bandwidth_;
  if (back_off_.share() < 1) {
    const double all = bandwidth_.has_value()
                           ? static_cast<double>(bandwidth_->value())
                       : rate_ > 0 ? rate_
                                   : static_cast<double>(kUnknownRate.value());
    cap = std::max(Bytes(static_cast<uint64_t>(all * back_off_.share())),
                   kLeastBandwidth);
  }
  throttle_.Set(cap);
  ++changes_;
  turn_.SignalAll();
}

}  // namespace hugepool
