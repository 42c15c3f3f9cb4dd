// Pages that a held extent loses and gets back, in the books.
#include <gtest/gtest.h>

#include <utility>

#include "daemon/pool/pool.h"
#include "daemon/pool/pool_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Outcome = WorkOutcome;

class PoolSplitTest : public PoolFixture {
 protected:
  PoolSplitTest() {
    PoolConfig config = Config();
    config.shapes = {P(4)};
    Make(config);
    DoAll();
  }

  // 16 pages, and the kernel has no more.
  void HoldAll() {
    for (int i = 0; i < 4; ++i) slots_[i] = TakeHeld(4, Terms());
    kernel_ = sys::KernelCounters{.total = P(16), .free = P(0)};
    EXPECT_FALSE(Work().has_value());
  }
  Job Start(SlotId slot) {
    return Job(pool_->StartSplit(table_->id(slot), kLease));
  }
  void OtherWork() {
    while (auto work = Work()) SettleDone(std::move(work));
  }
  PoolNews Split(SlotId slot, uint64_t there) {
    auto split = Start(slot);
    EXPECT_TRUE(split.has_value());
    split->there = P(there);
    return SettleDone(std::move(split));
  }
  SlotId slots_[4];
};

TEST_F(PoolSplitTest, WantedFromTheLowWatermarkOnUntilTheHighOne) {
  EXPECT_EQ(pool_->WantsSplit(), P(0)) << "full";
  slots_[0] = TakeHeld(4, Terms());
  slots_[1] = TakeHeld(4, Terms());
  slots_[2] = TakeHeld(4, Terms());
  kernel_ = sys::KernelCounters{.total = P(16), .free = P(0)};
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->WantsSplit(), P(0)) << "at the low watermark of 4";
  slots_[3] = TakeHeld(4, Terms());
  EXPECT_EQ(pool_->WantsSplit(), P(16)) << "up to the high one";
  Split(slots_[0], 0);
  kernel_->free = P(4);
  SettleDone(Work());
  EXPECT_EQ(pool_->WantsSplit(), P(12)) << "goes on above the low one";
}

TEST_F(PoolSplitTest, WantedForThoseWhoWaitToo) {
  TakeHeld(4, Terms());
  kernel_ = sys::KernelCounters{.total = P(16), .free = P(0)};
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->WantsSplit(), P(0));
  Enqueue(500, 500, 14);
  EXPECT_EQ(pool_->WantsSplit(), P(4));
  Dequeue(500);
  EXPECT_EQ(pool_->WantsSplit(), P(0));
}

TEST_F(PoolSplitTest, WhatTheKernelHasComesFirst) {
  HoldAll();
  kernel_->total = P(20);
  kernel_->free = P(4);
  Split(slots_[0], 2);
  EXPECT_EQ(pool_->WantsSplit(), P(14)) << "two of them are to be built";
  pool_->StopFilling();
  EXPECT_EQ(pool_->WantsSplit(), P(0)) << "nobody wants any more";
}

TEST_F(PoolSplitTest, TheBooksFollowWhatIsThere) {
  HoldAll();
  const PoolNews news = Split(slots_[0], 1);
  EXPECT_EQ(State(slots_[0]), kHeld);
  ASSERT_EQ(news.shrunk.size(), 1u);
  EXPECT_EQ(news.shrunk[0].lease, kLease);
  EXPECT_EQ(news.shrunk[0].domain, kDomain);
  EXPECT_EQ(news.shrunk[0].extent, table_->id(slots_[0]));
  EXPECT_EQ(news.shrunk[0].before, MiB(8));
  EXPECT_EQ(news.shrunk[0].after, MiB(2));
  EXPECT_EQ(In(kHeld), P(13));
  EXPECT_EQ(pool_->Snapshot().charged, P(13));
  EXPECT_EQ(pool_->Snapshot().gone, P(3));
  EXPECT_EQ(pool_->Snapshot().limbo, P(3));
  EXPECT_TRUE(Split(slots_[0], 1).shrunk.empty()) << "as before";
  // One is touched again.
  const PoolNews again = Split(slots_[0], 2);
  ASSERT_EQ(again.shrunk.size(), 1u);
  EXPECT_EQ(again.shrunk[0].after, MiB(4));
  EXPECT_EQ(pool_->Snapshot().charged, P(14));
  EXPECT_EQ(pool_->Snapshot().regained, MiB(2));
}

TEST_F(PoolSplitTest, WhatCouldNotBeCountedIsAsItWas) {
  HoldAll();
  auto split = Start(slots_[0]);
  EXPECT_TRUE(Settle(split, Outcome::kFailed).shrunk.empty());
  EXPECT_EQ(State(slots_[0]), kHeld);
  EXPECT_EQ(In(kHeld), P(16));
}

TEST_F(PoolSplitTest, OnlyAHeldExtentOfThatLife) {
  const SlotId slot = Take(4, Terms());
  const ExtentId id = table_->id(slot);
  EXPECT_FALSE(pool_->StartSplit(id, kLease).has_value()) << "granted";
  EXPECT_TRUE(pool_->MaySplit(id, kLease)) << "once it is acknowledged";
  Open(slot);
  pool_->Held(slot);
  EXPECT_TRUE(pool_->MaySplit(id, kLease));
  EXPECT_FALSE(
      pool_->MaySplit(ExtentId(id.value() + (uint64_t{1} << 32)), kLease));
  // The same extent, another's: what the one before gave up is not the other's.
  EXPECT_FALSE(pool_->MaySplit(id, LeaseId(78)));
  EXPECT_FALSE(pool_->StartSplit(id, LeaseId(78)).has_value());
  auto split = Start(slot);
  ASSERT_TRUE(split.has_value());
  EXPECT_FALSE(pool_->StartSplit(id, kLease).has_value()) << "at work already";
  EXPECT_TRUE(pool_->MaySplit(id, kLease)) << "later";
  SettleDone(std::move(split));
  Close(slot);
  Return(slot);
  EXPECT_FALSE(pool_->MaySplit(id, kLease)) << "ended";
  EXPECT_FALSE(pool_->StartSplit(id, kLease).has_value());
}

TEST_F(PoolSplitTest, AReturnMeanwhileIsFollowedUp) {
  HoldAll();
  auto split = Start(slots_[1]);
  split->there = P(3);
  Close(slots_[1]);
  Return(slots_[1]);
  EXPECT_EQ(State(slots_[1]), kSplitting);
  EXPECT_FALSE(pool_->MaySplit(table_->id(slots_[1]), kLease));
  EXPECT_EQ(SettleDone(std::move(split)).shrunk.size(), 1u);
  EXPECT_EQ(State(slots_[1]), kReturning);
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->kind, WorkKind::kProbe);
  EXPECT_EQ(probe->gone, P(1));
  const PoolNews news = SettleDone(std::move(probe));
  ASSERT_EQ(news.back.size(), 1u);
  EXPECT_EQ(news.back[0].size, MiB(6));
}

TEST_F(PoolSplitTest, WhatLacksPagesIsNeverReusedInPlace) {
  const SlotId slot = TakeHeld(4, Terms(/*in_place=*/true));
  Split(slot, 3);
  Close(slot);
  Return(slot);
  auto probe = Quick();
  EXPECT_FALSE(probe->for_reuse);
  SettleDone(std::move(probe));
  EXPECT_EQ(State(slot), kRetiring);
  SettleDone(Work());
  // One page of limbo when it lost it, three when it was retired.
  EXPECT_EQ(pool_->Snapshot().limbo, P(4));
  EXPECT_EQ(pool_->Snapshot().gone, P(0));
}

TEST_F(PoolSplitTest, AMemoryLeaseThatWasClosedMeanwhileIsLookedAt) {
  const SlotId slot = TakeHeld(4, Terms(false, /*memory=*/true));
  auto first = Quick();
  Settle(first, Outcome::kBusy);
  auto split = Start(slot);
  Close(slot);
  EXPECT_FALSE(Quick().has_value());
  SettleDone(std::move(split));
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->kind, WorkKind::kProbe);
  Settle(probe, Outcome::kBusy);
}

TEST_F(PoolSplitTest, AChangedOneIsCountedAndSoAreThoseThatLackPages) {
  HoldAll();
  EXPECT_TRUE(pool_->Tell(table_->id(slots_[2]), {.changed = true}));
  auto count = Quick();
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->kind, WorkKind::kSplit);
  EXPECT_EQ(count->slot, slots_[2]);
  count->there = P(2);
  EXPECT_EQ(SettleDone(std::move(count)).shrunk.size(), 1u);
  EXPECT_FALSE(Quick().has_value());
  pool_->RecountShrunk();
  EXPECT_FALSE(Quick().has_value()) << "other work has its turn first";
  EXPECT_EQ(pool_->NextLook(), absl::InfinitePast());
  OtherWork();
  count = Quick();
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->slot, slots_[2]);
  SettleDone(std::move(count));
  OtherWork();
  EXPECT_FALSE(Quick().has_value());
  // One that has ended meanwhile is not.
  pool_->RecountShrunk();
  Return(slots_[2]);
  auto probe = Quick();
  EXPECT_EQ(probe->kind, WorkKind::kProbe);
  Settle(probe, Outcome::kBusy);
  EXPECT_FALSE(Quick().has_value());
}

TEST_F(PoolSplitTest, PagesTakenBackWhileItReturnsAreFoundByTheProbe) {
  HoldAll();
  Split(slots_[0], 2);
  Return(slots_[0]);
  auto probe = Quick();
  probe->there = P(3);
  const PoolNews news = Settle(probe, Outcome::kBusy);
  ASSERT_EQ(news.shrunk.size(), 1u);
  EXPECT_EQ(news.shrunk[0].after, MiB(6));
  EXPECT_EQ(In(kReturning), P(3));
}

}  // namespace
}  // namespace hugepool
