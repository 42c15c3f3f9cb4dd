#include "daemon/base/thread_stripe.h"

#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "daemon/base/mutex.h"

namespace hugepool {
namespace {

struct Seen {
  std::set<uint32_t> alone;
  int sharing = 0;
};

// Of `n` threads that live at the same time.
Seen StripesOf(int n) {
  Seen seen;
  Mutex mu;
  std::latch all(n);
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&] {
      const ThreadStripe stripe = ThisThreadsStripe();
      {
        MutexLock lock(&mu);
        if (stripe.alone) {
          EXPECT_TRUE(seen.alone.insert(stripe.index).second);
        } else {
          EXPECT_EQ(stripe.index, kStripes - 1);
          ++seen.sharing;
        }
      }
      all.arrive_and_wait();
      EXPECT_EQ(ThisThreadsStripe().index, stripe.index);
    });
  }
  for (std::thread& t : threads) t.join();
  return seen;
}

TEST(ThreadStripe, IsAThreadsOwnUntilThereAreTooMany) {
  // This thread has none of its own in this test.
  const int own = static_cast<int>(kStripes) - 1;
  EXPECT_EQ(StripesOf(own).alone.size(), kStripes - 1);
  const Seen many = StripesOf(own + 9);
  EXPECT_EQ(many.alone.size(), kStripes - 1);
  EXPECT_EQ(*many.alone.rbegin(), kStripes - 2);
  EXPECT_EQ(many.sharing, 9);
}

TEST(ThreadStripe, GoesToAnotherThreadAfterItsEnd) {
  for (uint32_t i = 0; i < 3 * kStripes; ++i) {
    EXPECT_EQ(StripesOf(1).alone.size(), 1u);
  }
}

}  // namespace
}  // namespace hugepool
