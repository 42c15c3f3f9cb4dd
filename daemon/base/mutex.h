// A mutex that clang's thread-safety analysis and ThreadSanitizer both see.
//
// absl::Mutex would be the first choice, but Debian's abseil is not built for
// ThreadSanitizer and gives false races there; std::mutex does not.
#ifndef HUGEPOOL_DAEMON_BASE_MUTEX_H_
#define HUGEPOOL_DAEMON_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"
#include "daemon/base/thread_annotations.h"

namespace hugepool {

class HP_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() HP_ACQUIRE() { mu_.lock(); }
  void Unlock() HP_RELEASE() { mu_.unlock(); }
  bool TryLock() HP_TRY_ACQUIRE(true) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class HP_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mu) HP_ACQUIRE(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() HP_RELEASE() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// Wake-ups can be spurious: wait in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex* mu) HP_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False when `timeout` passed first. A very long one ends after a day in a
  // spurious wake-up: the library adds it to the time of day, which overflows
  // for an infinite one and would return at once.
  bool WaitFor(Mutex* mu, absl::Duration timeout) HP_REQUIRES(mu) {
    constexpr absl::Duration kLongest = absl::Hours(24);
    const bool endless = timeout > kLongest;
    std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
    const auto r = cv_.wait_for(
        lock, absl::ToChronoNanoseconds(endless ? kLongest : timeout));
    lock.release();
    return endless || r == std::cv_status::no_timeout;
  }
  void Signal() { cv_.notify_one(); }
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_MUTEX_H_
