// The pressure that a test says.
#ifndef HUGEPOOL_DAEMON_SYS_FAKE_PRESSURE_H_
#define HUGEPOOL_DAEMON_SYS_FAKE_PRESSURE_H_

#include <optional>

#include "daemon/base/mutex.h"
#include "daemon/sys/pressure.h"

namespace hugepool::sys {

// Thread-safe.
class FakePressure : public Pressure {
 public:
  std::optional<double> Read() const override HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    ++reads_;
    read_.SignalAll();
    return value_;
  }
  void Set(std::optional<double> percent) HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    value_ = percent;
  }
  int reads() const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return reads_;
  }
  // Until it was read so often.
  void WaitForReads(int reads) const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    while (reads_ < reads) read_.Wait(&mu_);
  }

 private:
  mutable Mutex mu_;
  mutable CondVar read_;
  std::optional<double> value_ HP_GUARDED_BY(mu_);
  mutable int reads_ HP_GUARDED_BY(mu_) = 0;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FAKE_PRESSURE_H_
