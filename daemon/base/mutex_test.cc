#include "daemon/base/mutex.h"

#include <gtest/gtest.h>

#include <thread>

#include "daemon/base/clock.h"

namespace hugepool {
namespace {

TEST(Mutex, CondVarPassesTheLockBetweenThreads) {
  Mutex mu;
  CondVar cv;
  int turn = 0;  // guarded by mu
  std::thread other([&] {
    MutexLock lock(&mu);
    while (turn != 1) cv.Wait(&mu);
    turn = 2;
    cv.SignalAll();
  });
  {
    MutexLock lock(&mu);
    turn = 1;
    cv.SignalAll();
    while (turn != 2) cv.Wait(&mu);
    EXPECT_EQ(turn, 2);
  }
  other.join();
}

TEST(Mutex, WaitForTellsThatTimePassed) {
  Mutex mu;
  CondVar cv;
  MutexLock lock(&mu);
  // Spurious wake-ups may answer true before the time is up.
  while (cv.WaitFor(&mu, absl::Milliseconds(1))) {
  }
}

TEST(Mutex, TryLockFailsWhileHeld) {
  Mutex mu;
  mu.Lock();
  std::thread other([&] {
    const bool got = mu.TryLock();
    EXPECT_FALSE(got);
    if (got) mu.Unlock();
  });
  other.join();
  mu.Unlock();
}

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  const absl::Time before = clock.Now();
  EXPECT_EQ(clock.Now(), before);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now() - before, absl::Seconds(3));
}

TEST(RealClock, DoesNotGoBack) {
  const absl::Time a = Clock::Real()->Now();
  EXPECT_LE(a, Clock::Real()->Now());
}

}  // namespace
}  // namespace hugepool
