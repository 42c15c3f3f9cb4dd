// Scheduling classes as a table, for tests.
#ifndef HUGEPOOL_DAEMON_SYS_FAKE_SCHED_CLASS_H_
#define HUGEPOOL_DAEMON_SYS_FAKE_SCHED_CLASS_H_

#include <functional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/sys/sched_class.h"

namespace hugepool::sys {

// Thread-safe.
class FakeSchedClass : public SchedClass {
 public:
  absl::Status SetIdle(pid_t thread) override HP_EXCLUDES(mu_) {
    if (before_idle_) before_idle_();
    MutexLock lock(&mu_);
    idle_.insert(thread);
    ++times_idle_;
    return absl::OkStatus();
  }
  absl::Status SetNice(pid_t thread) override HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    nice_.insert(thread);
    ++times_nice_;
    return absl::OkStatus();
  }
  absl::Status SetNormal(pid_t thread) override HP_EXCLUDES(mu_) {
    if (before_normal_) before_normal_();
    MutexLock lock(&mu_);
    if (thread != ThisThread()) ++calls_from_outside_;
    changed_.SignalAll();
    if (!refusal_.ok()) return refusal_;
    nice_.erase(thread);
    if (idle_.erase(thread) > 0 && thread != ThisThread()) ++raised_;
    return absl::OkStatus();
  }

  bool IsIdle(pid_t thread) const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return idle_.count(thread) > 0;
  }
  bool IsNice(pid_t thread) const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return nice_.count(thread) > 0;
  }
  int times_nice() const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return times_nice_;
  }
  int times_idle() const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return times_idle_;
  }
  // How many idle threads were brought back by another one.
  int raised() const HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return raised_;
  }
  // Until somebody has brought back the thread: as one that gets no time.
  void WaitUntilNormal(pid_t thread) HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    while (idle_.count(thread) > 0) changed_.Wait(&mu_);
  }
  // Until SetNormal() was called for a thread by another one, so often.
  void WaitForCallsFromOutside(int calls) HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    while (calls_from_outside_ < calls) changed_.Wait(&mu_);
  }
  // What SetNormal() answers from now on; OK: it does it.
  void Refuse(absl::Status refusal) HP_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    refusal_ = std::move(refusal);
  }
  // Called at the beginning of the changes, on the thread that asks for them.
  // Set before there are others.
  void BeforeIdle(std::function<void()> f) { before_idle_ = std::move(f); }
  void BeforeNormal(std::function<void()> f) { before_normal_ = std::move(f); }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  std::set<pid_t> idle_ HP_GUARDED_BY(mu_);
  int times_idle_ HP_GUARDED_BY(mu_) = 0;
  std::set<pid_t> nice_ HP_GUARDED_BY(mu_);
  int times_nice_ HP_GUARDED_BY(mu_) = 0;
  int calls_from_outside_ HP_GUARDED_BY(mu_) = 0;
  int raised_ HP_GUARDED_BY(mu_) = 0;
  absl::Status refusal_ HP_GUARDED_BY(mu_);
  std::function<void()> before_idle_;
  std::function<void()> before_normal_;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FAKE_SCHED_CLASS_H_
