// Runs closures in order on one thread, some of them later. Upward news (from
// pools to leases, from leases to clients) goes through it, so that it is never
// delivered under a lock.
#ifndef HUGEPOOL_DAEMON_BASE_EXECUTOR_H_
#define HUGEPOOL_DAEMON_BASE_EXECUTOR_H_

#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"

namespace hugepool {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `f` after everything posted before. Thread-safe. After Stop(): drops
  // it.
  virtual void Post(std::function<void()> f) = 0;
  // Runs `f` once the clock has reached `when`. Thread-safe.
  virtual void PostAt(absl::Time when, std::function<void()> f) = 0;
};

// A thread of its own on the real clock.
class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(const char* name);
  ~ThreadExecutor() override;

  void Post(std::function<void()> f) override;
  void PostAt(absl::Time when, std::function<void()> f) override;
  // Finishes what was posted for now, drops what is later, joins. Idempotent.
  // Not to be called from the executor's own thread.
  void Stop();

 private:
  void Run();

  Mutex mu_;
  CondVar wake_;
  std::deque<std::function<void()>> now_ HP_GUARDED_BY(mu_);
  std::multimap<absl::Time, std::function<void()>> later_ HP_GUARDED_BY(mu_);
  bool stop_ HP_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// Runs when told to, on the fake clock: for tests. Not thread-safe.
class ManualExecutor : public Executor {
 public:
  explicit ManualExecutor(const Clock* clock) : clock_(clock) {}
  void Post(std::function<void()> f) override { now_.push_back(std::move(f)); }
  void PostAt(absl::Time when, std::function<void()> f) override {
    later_.emplace(when, std::move(f));
  }
  // Runs all that is due, also what that posts.
  void RunDue();

 private:
  const Clock* const clock_;
  std::deque<std::function<void()>> now_;
  std::multimap<absl::Time, std::function<void()>> later_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_EXECUTOR_H_
