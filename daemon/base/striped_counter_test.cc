#include "daemon/base/striped_counter.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace hugepool {
namespace {

TEST(StripedCounter, LosesNothingThatManyThreadsAdd) {
  StripedCounter counter;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2 * kStripes; ++t) {
    threads.emplace_back([&counter, t] {
      for (int i = 0; i < 1000; ++i) counter.Add(t);
    });
  }
  for (std::thread& t : threads) t.join();
  const uint64_t n = 2 * kStripes;
  EXPECT_EQ(counter.Read(), 1000 * n * (n - 1) / 2);
}

TEST(StripedCounter, StripesLieOnLinesOfTheirOwn) {
  EXPECT_EQ(sizeof(StripedCounter), kStripes * kCacheLineBytes);
  EXPECT_EQ(alignof(StripedCounter), static_cast<size_t>(kCacheLineBytes));
}

TEST(StripedCounter, AThreadKeepsItsStripeAndOthersHaveOthers) {
  EXPECT_EQ(ThisThreadsStripe(), ThisThreadsStripe());
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < kStripes; ++i) {
    std::thread([&seen] { seen.insert(ThisThreadsStripe()); }).join();
  }
  EXPECT_EQ(seen.size(), kStripes);
  EXPECT_LT(*seen.rbegin(), kStripes);
}

}  // namespace
}  // namespace hugepool
