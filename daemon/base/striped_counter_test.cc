#include "daemon/base/striped_counter.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace hugepool {
namespace {

void AddByThreads(int threads, StripedCounter* counter) {
  std::latch start(threads);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int i = 0; i < 1000; ++i) counter->Add(static_cast<uint64_t>(t));
    });
  }
  for (std::thread& t : all) t.join();
}

TEST(StripedCounter, LosesNothingThatManyThreadsAdd) {
  // Each on a stripe of its own; and more than there are.
  for (const int threads : {8, 80}) {
    StripedCounter counter;
    AddByThreads(threads, &counter);
    const auto n = static_cast<uint64_t>(threads);
    EXPECT_EQ(counter.Read(), 1000 * n * (n - 1) / 2);
  }
}

TEST(StripedCounter, GoesOnWhereAThreadThatEndedLeftOff) {
  StripedCounter counter;
  for (int i = 0; i < 5; ++i) AddByThreads(4, &counter);
  EXPECT_EQ(counter.Read(), 5u * 6000u);
}

TEST(StripedCounter, StripesLieOnLinesOfTheirOwn) {
  EXPECT_EQ(sizeof(StripedCounter), kStripes * kCacheLineBytes);
  EXPECT_EQ(alignof(StripedCounter), static_cast<size_t>(kCacheLineBytes));
}

}  // namespace
}  // namespace hugepool
