#include "daemon/base/executor.h"

#include <sys/resource.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/base/mutex.h"

namespace hugepool {
namespace {

// absl's gives false races under ThreadSanitizer here.
class Notification {
 public:
  void Notify() {
    MutexLock lock(&mu_);
    notified_ = true;
    wake_.SignalAll();
  }
  bool HasBeenNotified() {
    MutexLock lock(&mu_);
    return notified_;
  }
  void WaitForNotification() {
    MutexLock lock(&mu_);
    while (!notified_) wake_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar wake_;
  bool notified_ HP_GUARDED_BY(mu_) = false;
};

TEST(ManualExecutor, RunsInOrderAndOnlyWhenTold) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  std::string ran;
  executor.Post([&] {
    ran += 'a';
    executor.Post([&] { ran += 'c'; });
  });
  executor.Post([&] { ran += 'b'; });
  EXPECT_EQ(ran, "");
  executor.RunDue();
  EXPECT_EQ(ran, "abc");
}

TEST(ManualExecutor, RunsLaterOnesOnceTheClockIsThere) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  std::string ran;
  executor.PostAt(clock.Now() + absl::Seconds(2), [&] { ran += 'b'; });
  executor.PostAt(clock.Now() + absl::Seconds(1), [&] { ran += 'a'; });
  executor.PostAt(absl::InfiniteFuture(), [&] { ran += 'z'; });
  clock.Advance(absl::Milliseconds(999));
  executor.RunDue();
  EXPECT_EQ(ran, "");
  clock.Advance(absl::Milliseconds(1));
  executor.RunDue();
  EXPECT_EQ(ran, "a");
  clock.Advance(absl::Hours(1));
  executor.RunDue();
  EXPECT_EQ(ran, "ab");
}

TEST(ThreadExecutor, RunsInOrderOnOneOtherThread) {
  ThreadExecutor executor("test-executor");
  std::vector<int> ran;
  std::thread::id thread;
  Notification done;
  for (int i = 0; i < 100; ++i) executor.Post([&ran, i] { ran.push_back(i); });
  executor.Post([&] {
    thread = std::this_thread::get_id();
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_EQ(ran.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(ThreadExecutor, StopFinishesWhatIsDueAndDropsTheRest) {
  ThreadExecutor executor("test-executor");
  int ran = 0;
  bool later = false;
  executor.PostAt(Clock::Real()->Now() + absl::Hours(1), [&] { later = true; });
  for (int i = 0; i < 10; ++i) executor.Post([&] { ++ran; });
  executor.Stop();
  EXPECT_EQ(ran, 10);
  EXPECT_FALSE(later);
  executor.Post([&] { ++ran; });
  executor.PostAt(absl::InfinitePast(), [&] { ++ran; });
  executor.Stop();
  EXPECT_EQ(ran, 10) << "dropped after Stop()";
}

TEST(ThreadExecutor, RunsATimerThatIsDueThoughMoreIsAlwaysQueued) {
  ThreadExecutor executor("test-executor");
  Notification timer;
  Notification end;
  int rounds = 0;
  std::function<void()> again = [&] {
    if (timer.HasBeenNotified() || ++rounds > 1'000'000) return end.Notify();
    executor.Post(again);
  };
  executor.Post([&] {
    executor.Post(again);
    executor.PostAt(Clock::Real()->Now(), [&] { timer.Notify(); });
  });
  end.WaitForNotification();
  EXPECT_TRUE(timer.HasBeenNotified());
}

// A client's max_wait can be infinite: its timer must cost nothing.
TEST(ThreadExecutor, ATimerThatNeverComesDoesNotKeepTheThreadBusy) {
  ThreadExecutor executor("test-executor");
  executor.PostAt(absl::InfiniteFuture(), [] {});
  // Wakes the thread some times; between, it sleeps.
  const auto cpu = [] {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) +
           absl::DurationFromTimeval(usage.ru_stime);
  };
  absl::Duration used;
  Notification measured;
  absl::Duration before;
  executor.Post([&] { before = cpu(); });
  executor.PostAt(Clock::Real()->Now() + absl::Milliseconds(200), [&] {
    used = cpu() - before;
    measured.Notify();
  });
  measured.WaitForNotification();
  EXPECT_LT(used, absl::Milliseconds(100)) << "of 200 ms";
}

// The wait itself: an infinite one must not come back as expired.
TEST(CondVar, AnInfiniteTimeoutDoesNotPass) {
  Mutex mu;
  CondVar wake;
  bool waiting = false;
  bool go = false;
  bool expired = false;
  std::thread waiter([&] {
    MutexLock lock(&mu);
    waiting = true;
    wake.SignalAll();
    while (!go) {
      if (!wake.WaitFor(&mu, absl::InfiniteDuration())) {
        expired = true;
        return;
      }
    }
  });
  {
    MutexLock lock(&mu);
    while (!waiting) wake.Wait(&mu);
    go = true;
    wake.SignalAll();
  }
  waiter.join();
  EXPECT_FALSE(expired);
}

}  // namespace
}  // namespace hugepool
