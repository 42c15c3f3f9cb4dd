#include "daemon/base/executor.h"

#include <pthread.h>

#include <utility>

namespace hugepool {

ThreadExecutor::ThreadExecutor(const char* name) {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), name);
}

ThreadExecutor::~ThreadExecutor() { Stop(); }

void ThreadExecutor::Post(std::function<void()> f) {
  MutexLock lock(&mu_);
  if (stop_) return;
  now_.push_back(std::move(f));
  wake_.Signal();
}

void ThreadExecutor::PostAt(absl::Time when, std::function<void()> f) {
  MutexLock lock(&mu_);
  if (stop_) return;
  // The thread sleeps until the earliest: a later one need not wake it. Every
  // grant sets a timer, so this saves a wake-up on the hot path.
  const bool earliest = later_.empty() || when < later_.begin()->first;
  later_.emplace(when, std::move(f));
  if (earliest) wake_.Signal();
}

void ThreadExecutor::Stop() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    later_.clear();
    wake_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void ThreadExecutor::Run() {
  const Clock* const clock = Clock::Real();
  while (true) {
    std::function<void()> f;
    {
      MutexLock lock(&mu_);
      while (true) {
        const absl::Time now = clock->Now();
        while (!later_.empty() && later_.begin()->first <= now) {
          now_.push_back(std::move(later_.begin()->second));
          later_.erase(later_.begin());
        }
        if (!now_.empty()) break;
        if (stop_) return;
        if (later_.empty()) {
          wake_.Wait(&mu_);
        } else {
          wake_.WaitFor(&mu_, later_.begin()->first - now);
        }
      }
      f = std::move(now_.front());
      now_.pop_front();
    }
    f();
  }
}

void ManualExecutor::RunDue() {
  while (true) {
    while (!later_.empty() && later_.begin()->first <= clock_->Now()) {
      now_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (now_.empty()) return;
    std::function<void()> f = std::move(now_.front());
    now_.pop_front();
    f();
  }
}

}  // namespace hugepool
