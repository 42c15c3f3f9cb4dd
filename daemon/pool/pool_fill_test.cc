// What a pool does where the kernel has fewer pages than it shall own (T7, K3).
#include <gtest/gtest.h>

#include <vector>

#include "daemon/pool/pool.h"
#include "daemon/pool/pool_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Outcome = WorkOutcome;

constexpr char kNoneLeft[] =
    "the kernel has no free page left; raise nr_hugepages or lower the target";

class PoolFillTest : public PoolFixture {
 protected:
  void Kernel(uint64_t total, uint64_t free, uint64_t reserved = 0) {
    kernel_ = sys::KernelCounters{P(total), P(free), P(0), P(reserved), false};
  }
  std::string Shortfall() { return pool_->Snapshot().shortfall; }
  // Fails the next build, waits until the pool tries again; its pages.
  PageCount FailOne(Outcome outcome = Outcome::kNoPages) {
    auto build = Work();
    if (!build) return P(0);
    const PageCount pages = build->pages;
    Settle(build, outcome, "none");
    SettleDone(Work());  // what it got goes back
    clock_.Advance(absl::Seconds(5));
    return pages;
  }
};

TEST_F(PoolFillTest, T7IsShortOnceNoFreePageIsLeft) {
  Kernel(6, 6);
  EXPECT_EQ(Shortfall(), "");
  auto build = Work();
  Settle(build, Outcome::kDone);
  Kernel(6, 2);
  for (uint64_t free = 2; free > 0; --free) {
    EXPECT_EQ(Shortfall(), "") << "not before all is used";
    auto more = Work();
    ASSERT_TRUE(more.has_value());
    Settle(more, Outcome::kDone);
    Kernel(6, free - 1);
  }
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->Snapshot().charged, P(6));
  EXPECT_EQ(Shortfall(), kNoneLeft);
  Kernel(16, 10);  // others let go
  auto again = Work();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(Shortfall(), "");
  Settle(again, Outcome::kDone);
}

TEST_F(PoolFillTest, APoolWithAllThatItShallHaveIsNotShort) {
  PoolConfig c = Config(16);
  c.high = P(6);
  Make(c);
  DoAll();
  Kernel(6, 0);
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(Shortfall(), "") << "it wants no more than six clean ones";
  (void)Take(1, Terms());
  EXPECT_EQ(Shortfall(), kNoneLeft);
}

TEST_F(PoolFillTest, WhatWasJustGivenBackIsNoShortage) {
  DoAll();
  Kernel(16, 0);
  const SlotId slot = TakeHeld(4, Terms());
  EXPECT_FALSE(Work().has_value());
  Return(slot);
  Close(slot);
  SettleDone(Quick());  // the probe
  SettleDone(Work());   // the retiring
  EXPECT_EQ(In(kClean), P(12));
  EXPECT_EQ(Shortfall(), "") << "the kernel was not asked yet";
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(Shortfall(), kNoneLeft) << "somebody else has taken it";
}

TEST_F(PoolFillTest, WhatOthersUseIsNotInLimbo) {
  Kernel(64, 40);  // 24 are somebody else's
  auto build = Work();
  Settle(build, Outcome::kDone);
  const SlotId slot = TakeHeld(4, Terms());
  Kernel(64, 36);
  auto next = Work();
  Settle(next, Outcome::kDone);
  Kernel(64, 32);
  Return(slot);
  Close(slot);
  SettleDone(Quick());  // the probe
  SettleDone(Work());   // the retiring
  EXPECT_EQ(pool_->Snapshot().limbo, P(4));
  Kernel(64, 36);  // all but what the second build has
  auto third = Work();
  EXPECT_EQ(pool_->Snapshot().limbo, P(0));
  Settle(third, Outcome::kDone);
}

// A pin keeps them out of the free list.
TEST_F(PoolFillTest, WhatDoesNotComeFreeIsInLimbo) {
  Kernel(64, 40);
  auto build = Work();
  Settle(build, Outcome::kDone);
  Kernel(64, 36);
  auto next = Work();
  Settle(next, Outcome::kDone);
  Kernel(64, 32);
  const SlotId slot = TakeHeld(4, Terms());
  Return(slot);
  Close(slot);
  SettleDone(Quick());  // the probe
  SettleDone(Work());   // the retiring
  Kernel(64, 33);
  auto third = Work();
  EXPECT_EQ(pool_->Snapshot().limbo, P(3));
  Settle(third, Outcome::kDone);
}

TEST_F(PoolFillTest, PagesThatOthersReservedAreNamed) {
  Kernel(16, 4, /*reserved=*/4);
  EXPECT_EQ(FailOne(), P(4));
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(Shortfall(), "none") << "as the build said";
}

// A limit that the counters do not show, a cgroup's for example: the free pages
// are used all the same, in smaller extents.
TEST_F(PoolFillTest, K3ASmallerShapeIsTriedWhereALargeOneGotNoPages) {
  Kernel(100, 100);
  EXPECT_EQ(FailOne(), P(4));
  for (int i = 0; i < 3; ++i) {
    auto build = Work();
    ASSERT_TRUE(build.has_value());
    EXPECT_EQ(build->pages, P(1));
    Settle(build, Outcome::kDone);
  }
  EXPECT_EQ(In(kClean), P(3));
  // Not even one: from the start again, since the limit may be another by now.
  EXPECT_EQ(FailOne(), P(1));
  EXPECT_EQ(FailOne(), P(4));
}

TEST_F(PoolFillTest, AFailureOfAnotherKindDoesNotChangeTheShapes) {
  EXPECT_EQ(FailOne(Outcome::kFailed), P(4));
  EXPECT_EQ(FailOne(), P(4));
}

TEST_F(PoolFillTest, MemoryThatCameBackIsTriedInLargeShapesAgain) {
  auto first = Work();
  Settle(first, Outcome::kDone);
  EXPECT_EQ(FailOne(), P(4));
  const SlotId slot = TakeHeld(4, Terms());
  Return(slot);
  Close(slot);
  SettleDone(Quick());  // the probe
  SettleDone(Work());   // the retiring
  auto build = Work();
  EXPECT_EQ(build->pages, P(4));
  Settle(build, Outcome::kDone);
}

}  // namespace
}  // namespace hugepool
