// How fast background work may go, and whether somebody hurries.
#ifndef HUGEPOOL_DAEMON_CLEAR_PACER_H_
#define HUGEPOOL_DAEMON_CLEAR_PACER_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/base/units.h"
#include "daemon/clear/back_off.h"
#include "daemon/clear/throttle.h"
#include "daemon/sys/pressure.h"

namespace hugepool {

// The cap that was set, less what others' pressure asks for; and the two
// reasons not to heed it: somebody hurries, or all is to end. Thread-safe.
class Pacer {
 public:
  struct Options {
    const Clock* clock = Clock::Real();
    std::optional<Bytes> bandwidth;  // a second; nullopt: no cap
    // nullptr: there is none to ask.
    const sys::Pressure* pressure = nullptr;
    std::optional<double> pressure_limit;  // percent; nullopt: off
  };
  // What is in force, for people.
  struct State {
    std::optional<Bytes> bandwidth;
    double share = 1;                // of the cap, or of what would be reached
    std::optional<double> pressure;  // of others, when last looked at
  };

  explicit Pacer(const Options& options);

  void Hurry() HP_EXCLUDES(mu_);
  void Calm() HP_EXCLUDES(mu_);
  // For ever.
  void Cancel() HP_EXCLUDES(mu_);
  // Without the lock, between two pieces: being seen a piece later is what is
  // promised.
  bool hurried() const { return hurried_.load(std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // In force at once, for those who wait too.
  void SetBandwidth(std::optional<Bytes> per_second) HP_EXCLUDES(mu_);
  void SetPressureLimit(std::optional<double> percent) HP_EXCLUDES(mu_);

  // Whether anything holds background work up.
  bool capped() const HP_EXCLUDES(mu_);
  // Books `work` and waits until it may begin: for the cap, or until somebody
  // hurries or cancels, or the cap changes.
  void WaitForTurn(Bytes work) HP_EXCLUDES(mu_);

  // Looks at others' pressure, if it is time to. Reads files: with no lock
  // held, and while background work is under way. `rate`: what that work would
  // reach, bytes a second; 0: not known.
  void Look(double rate) HP_EXCLUDES(mu_);
  // Whether Look() will ever do anything.
  bool looks() const HP_EXCLUDES(mu_);

  State state() const HP_EXCLUDES(mu_);

 private:
  // Lets those who wait look again.
  void Apply() HP_REQUIRES(mu_);

  const Options options_;
  // Written under mu_, for those who wait; read without it, relaxed.
  std::atomic<bool> hurried_{false};
  std::atomic<bool> cancelled_{false};

  mutable Mutex mu_;
  CondVar turn_;
  std::optional<Bytes> bandwidth_ HP_GUARDED_BY(mu_);
  double rate_ HP_GUARDED_BY(mu_) = 0;
  BackOff back_off_ HP_GUARDED_BY(mu_);
  Throttle throttle_ HP_GUARDED_BY(mu_);
  uint64_t changes_ HP_GUARDED_BY(mu_) = 0;  // of the throttle
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_PACER_H_
