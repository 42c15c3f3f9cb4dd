// What is done between a taking and its grant, readers, and verification.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/pool/pool.h"
#include "daemon/pool/pool_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Outcome = WorkOutcome;

class PoolPrepareTest : public PoolFixture {
 protected:
  PoolPrepareTest() { DoAll(); }

  static Preparation Copy(SlotId source) {
    Preparation p;
    p.copy = {{source, MiB(2), Bytes(0), MiB(8)}};
    p.hot = MiB(3);
    return p;
  }
  Pool::VerifyResult Finished(uint64_t pass) {
    auto result = pool_->FinishVerify(pass);
    EXPECT_TRUE(result.has_value());
    return result.value_or(Pool::VerifyResult{});
  }
};

// --- Preparing --------------------------------------------------------------

TEST_F(PoolPrepareTest, ACopyIsMadeFirstAndToldOf) {
  const SlotId source = TakeHeld(4, Terms());
  const SlotId slot = Take(4, Terms());
  EXPECT_FALSE(pool_->HasWaiters());
  pool_->Prepare(slot, Copy(source));
  EXPECT_TRUE(pool_->HasWaiters());
  EXPECT_EQ(pool_->needs(), Need::kWaiters);
  auto copy = Work();
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->kind, WorkKind::kCopy);
  EXPECT_EQ(copy->hot, MiB(3));
  ASSERT_EQ(copy->copy.size(), 1u);
  EXPECT_EQ(copy->copy[0].source, source);
  EXPECT_EQ(State(slot), kPreparing);
  EXPECT_TRUE(pool_->HasWaiters()) << "it is not ready yet";
  const ExtentId id = table_->id(slot);
  const PoolNews news = Settle(copy, Outcome::kDone);
  ASSERT_EQ(news.prepared.size(), 1u);
  EXPECT_EQ(news.prepared[0].lease, kLease);
  EXPECT_EQ(news.prepared[0].extent, id);
  EXPECT_EQ(news.prepared[0].outcome, Outcome::kDone);
  EXPECT_EQ(State(slot), kGranted);
  EXPECT_FALSE(pool_->HasWaiters());
  pool_->Held(slot);
}

TEST_F(PoolPrepareTest, ItIsVerifiedBeforeItIsFilled) {
  const SlotId source = TakeHeld(4, Terms());
  const SlotId slot = Take(4, Terms());
  Preparation both = Copy(source);
  both.verify = true;
  pool_->Prepare(slot, both);
  auto verify = Work();
  ASSERT_EQ(verify->kind, WorkKind::kVerify);
  EXPECT_EQ(verify->verify_from, Bytes(0));
  EXPECT_EQ(verify->verify_to, MiB(8));
  EXPECT_TRUE(Settle(verify, Outcome::kDone).prepared.empty());
  auto copy = Work();
  ASSERT_EQ(copy->kind, WorkKind::kCopy);
  EXPECT_EQ(Settle(copy, Outcome::kDone).prepared.size(), 1u);
  EXPECT_EQ(pool_->Snapshot().verified, MiB(8));
}

TEST_F(PoolPrepareTest, AStrayByteIsToldAndTheExtentNotReused) {
  const SlotId slot = Take(4, Terms(/*in_place=*/true));
  Preparation check;
  check.verify = true;
  pool_->Prepare(slot, check);
  auto verify = Work();
  verify->stray = 3;
  const PoolNews news = Settle(verify, Outcome::kDamaged, "3 bytes");
  ASSERT_EQ(news.prepared.size(), 1u);
  EXPECT_EQ(news.prepared[0].outcome, Outcome::kDamaged);
  EXPECT_EQ(news.prepared[0].why, "3 bytes");
  EXPECT_EQ(pool_->Snapshot().stray, 3u);
  pool_->NeverOpened(slot);
  Return(slot);
  EXPECT_EQ(SettleDone(Quick()).back.size(), 1u) << "no closing to wait for";
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(PoolPrepareTest, OnlyWhatIsGrantedIsPreparedAndOnlyOnce) {
  const SlotId held = TakeHeld(4, Terms());
  EXPECT_DEATH(pool_->Prepare(held, Copy(held)), "is granted");
  const SlotId slot = Take(4, Terms());
  EXPECT_DEATH(pool_->Prepare(slot, Preparation{}), "something to prepare");
  pool_->Prepare(slot, Copy(held));
  EXPECT_DEATH(pool_->Prepare(slot, Copy(held)), "prepared once");
  SettleDone(Work());
}

// --- Reading ----------------------------------------------------------------

TEST_F(PoolPrepareTest, WhatIsReadStaysUntilTheLastReaderLeaves) {
  const SlotId slot = TakeHeld(4, Terms());
  ASSERT_TRUE(pool_->StartReading(slot, kLease));
  ASSERT_TRUE(pool_->StartReading(slot, kLease));
  Return(slot);
  Close(slot);
  EXPECT_FALSE(Quick().has_value()) << "nobody looks while it is read";
  EXPECT_EQ(State(slot), kReturning);
  pool_->EndReading(slot);
  EXPECT_FALSE(Quick().has_value());
  pool_->EndReading(slot);
  EXPECT_EQ(DoAll().size(), 1u);
}

TEST_F(PoolPrepareTest, AProbeUnderWayDoesNotTakeItAwayFromAReader) {
  const SlotId slot = TakeHeld(4, Terms(false, /*memory=*/true));
  auto probe = Quick();
  ASSERT_EQ(probe->kind, WorkKind::kProbe);
  ASSERT_TRUE(pool_->StartReading(slot, kLease));
  Close(slot);
  EXPECT_TRUE(Settle(probe, Outcome::kDone).back.empty());
  EXPECT_EQ(State(slot), kHeld);
  EXPECT_FALSE(Quick().has_value());
  pool_->EndReading(slot);
  EXPECT_EQ(DoAll().size(), 1u);
}

TEST_F(PoolPrepareTest, OnlyWhatTheLeaseHoldsIsRead) {
  const SlotId slot = Take(4, Terms());
  EXPECT_FALSE(pool_->StartReading(slot, kLease)) << "not acknowledged";
  Open(slot);
  pool_->Held(slot);
  EXPECT_FALSE(pool_->StartReading(slot, LeaseId(5)));
  Return(slot);
  EXPECT_FALSE(pool_->StartReading(slot, kLease)) << "returned";
  EXPECT_FALSE(pool_->StartReading(SlotId(60), kLease)) << "no extent";
}

TEST_F(PoolPrepareTest, WhatIsLetGoCannotBeRead) {
  PoolConfig c = Config();
  c.let_go = true;
  Make(c);
  DoAll();
  const SlotId slot = TakeHeld(4, Terms());
  EXPECT_FALSE(pool_->StartReading(slot, kLease));
  DoAll();
}

// --- Verifying --------------------------------------------------------------

TEST_F(PoolPrepareTest, APassLooksAtAllThatIsClean) {
  pool_->StartVerify(9);
  EXPECT_FALSE(pool_->FinishVerify(9).has_value());
  int items = 0;
  while (true) {
    auto verify = Work();
    if (!verify) break;
    ASSERT_EQ(verify->kind, WorkKind::kVerify);
    EXPECT_EQ(State(verify->slot), kVerifying);
    EXPECT_EQ(verify->verify_to, k2M.Of(verify->pages));
    EXPECT_TRUE(Settle(verify, Outcome::kDone).stock_grew);
    ++items;
  }
  EXPECT_EQ(items, 7);  // 3 of 4 pages, 4 of 1
  EXPECT_EQ(Finished(9).verified, MiB(32));
  EXPECT_FALSE(pool_->FinishVerify(9).has_value()) << "forgotten";
  EXPECT_EQ(In(kClean), P(16));
}

TEST_F(PoolPrepareTest, WhatIsLentMeanwhileIsNotLookedAt) {
  pool_->StartVerify(1);
  for (int i = 0; i < 3; ++i) (void)Take(4, Terms());
  auto verify = Work();
  EXPECT_EQ(verify->pages, P(1));
  EXPECT_FALSE(pool_->FinishVerify(1).has_value()) << "one is being looked at";
  Settle(verify, Outcome::kDone);
  DoAll();
  EXPECT_EQ(Finished(1).verified, MiB(8));
}

TEST_F(PoolPrepareTest, AStrayByteRetiresTheExtent) {
  pool_->StartVerify(1);
  auto verify = Work();
  const SlotId slot = verify->slot;
  verify->stray = 2;
  EXPECT_FALSE(Settle(verify, Outcome::kDamaged).stock_grew);
  EXPECT_EQ(State(slot), kRetiring);
  DoAll();
  EXPECT_EQ(Finished(1).stray, 2u);
  EXPECT_EQ(pool_->Snapshot().stray, 2u);
  EXPECT_EQ(In(kClean), P(16)) << "made anew";
}

TEST_F(PoolPrepareTest, WhatSomebodyOpenedWhileItWasVerifiedIsRetired) {
  pool_->StartVerify(1);
  auto verify = Work();
  const SlotId slot = verify->slot;
  Open(slot);
  Settle(verify, Outcome::kDone);
  EXPECT_EQ(State(slot), kRetiring);
  DoAll();
}

TEST_F(PoolPrepareTest, ThoseWhoWaitForMemoryComeFirst) {
  pool_->StartVerify(1);
  (void)TakeHeld(4, Terms());
  Enqueue(5, 1, 16);
  while (true) {
    auto item = Work();
    if (!item) break;
    EXPECT_NE(item->kind, WorkKind::kVerify);
    Settle(item, Outcome::kDone);
  }
  EXPECT_TRUE(Dequeue(5));
  auto verify = Work();
  EXPECT_EQ(verify->kind, WorkKind::kVerify);
  Settle(verify, Outcome::kDone);
}

TEST_F(PoolPrepareTest, ACancelledPassEnds) {
  pool_->StartVerify(1);
  auto verify = Work();
  pool_->CancelVerify(1);
  Settle(verify, Outcome::kDone);
  EXPECT_FALSE(Work().has_value());
  EXPECT_FALSE(pool_->FinishVerify(1).has_value());
}

TEST_F(PoolPrepareTest, SamplesGoRound) {
  std::vector<std::pair<uint32_t, Bytes>> order;
  for (int i = 0; i < 16; ++i) {
    pool_->SampleVerify(MiB(2));
    auto verify = Work();
    ASSERT_TRUE(verify.has_value());
    EXPECT_FALSE(verify->urgent);
    EXPECT_EQ(verify->verify_to - verify->verify_from, MiB(2));
    order.emplace_back(verify->slot.value(), verify->verify_from);
    Settle(verify, Outcome::kDone);
    EXPECT_FALSE(Work().has_value()) << "one sample at a time";
  }
  // Every 2 MiB of the 32 exactly once; then it begins anew.
  const auto first = order.front();
  std::sort(order.begin(), order.end());
  EXPECT_EQ(std::adjacent_find(order.begin(), order.end()), order.end());
  pool_->SampleVerify(MiB(2));
  auto again = Work();
  EXPECT_EQ(again->slot.value(), first.first);
  EXPECT_EQ(again->verify_from, first.second);
  Settle(again, Outcome::kDone);
}

TEST_F(PoolPrepareTest, ASampleLargerThanThePoolLooksAtItOnce) {
  pool_->SampleVerify(GiB(1));
  Bytes seen;
  for (auto verify = Work(); verify; verify = Work()) {
    seen += verify->verify_to - verify->verify_from;
    Settle(verify, Outcome::kDone);
    ASSERT_LE(seen, MiB(64));
  }
  EXPECT_GE(seen, MiB(32));
}

// --- Bare -------------------------------------------------------------------

// A copy that must wait: what is made for it has no pages before it is filled.
class PoolBareTest : public PoolFixture {
 protected:
  void Wait(uint64_t pages, uint64_t lease = kLease.value()) {
    MutexLock lock(&pool_->mu());
    Demand d;
    d.lease = LeaseId(lease);
    d.sequence = lease;
    d.domain = kDomain;
    d.pages = P(pages);
    d.bare = true;
    pool_->EnqueueLocked(d);
  }
  // The slot of the next build, which is made.
  SlotId Build() {
    auto build = Work();
    EXPECT_TRUE(build.has_value());
    EXPECT_EQ(build->kind, WorkKind::kBuild);
    EXPECT_TRUE(build->bare);
    const SlotId slot = build->slot;
    EXPECT_TRUE(SettleDone(std::move(build)).stock_grew);
    return slot;
  }
  ShapeCounts UsableTo(LeaseId lease) {
    GrantTerms terms = Terms();
    terms.lease = lease;
    MutexLock lock(&pool_->mu());
    return pool_->UsableLocked(terms);
  }
  bool IsBare(SlotId slot) {
    MutexLock lock(&pool_->mu());
    return pool_->IsBareLocked(slot);
  }
  static Preparation Copy(SlotId source) {
    Preparation p;
    p.copy = {{source, Bytes(0), Bytes(0), MiB(8)}};
    return p;
  }
};

TEST_F(PoolBareTest, AWaitingCopyGetsExtentsThatAreFilledAtOnce) {
  Wait(5);
  const SlotId four = Build();
  EXPECT_EQ(State(four), kBare);
  const SlotId one = Build();
  EXPECT_EQ(UsableTo(kLease), (ShapeCounts{{P(4), 1}, {P(1), 1}}));
  EXPECT_EQ(UsableTo(LeaseId(78)), ShapeCounts{}) << "for nobody else";
  EXPECT_EQ(Take(4, Terms()), four);
  EXPECT_EQ(Take(1, Terms()), one);
  Dequeue(kLease.value());
  EXPECT_TRUE(IsBare(four));
  pool_->Prepare(four, Copy(one));
  auto fill = Work();
  ASSERT_EQ(fill->kind, WorkKind::kCopy);
  EXPECT_TRUE(fill->bare);
  EXPECT_EQ(SettleDone(std::move(fill)).prepared.size(), 1u);
  EXPECT_FALSE(IsBare(four));
  EXPECT_EQ(State(four), kGranted);
  pool_->Held(four);
  // One beyond the copy: nothing to copy, and yet to be filled.
  pool_->Prepare(one, {});
  fill = Work();
  ASSERT_EQ(fill->kind, WorkKind::kCopy);
  EXPECT_TRUE(fill->bare);
  SettleDone(std::move(fill));
  EXPECT_FALSE(IsBare(one));
  EXPECT_EQ(pool_->Snapshot().filled, MiB(10));
}

TEST_F(PoolBareTest, OthersBuildsAreWhole) {
  Wait(4);
  Enqueue(500, 500, 4);
  Build();
  auto build = Work();
  ASSERT_TRUE(build.has_value());
  EXPECT_FALSE(build->bare);
  EXPECT_EQ(SettleDone(std::move(build)).stock_grew, true);
  EXPECT_EQ(Usable(kDomain), (ShapeCounts{{P(4), 1}}));
}

TEST_F(PoolBareTest, ItsPagesAreTheKernelsStill) {
  kernel_ = sys::KernelCounters{.total = P(6), .free = P(6)};
  Wait(4);
  Build();
  // Charged, and free as the kernel sees it: neither others' nor to be had again.
  Enqueue(500, 500, 4);
  EXPECT_FALSE(Work().has_value()) << "two pages are left";
  EXPECT_EQ(pool_->Snapshot().limbo, P(0));
  const SlotId slot = Take(4, Terms());
  Dequeue(kLease.value());
  EXPECT_FALSE(Work().has_value());
  pool_->Prepare(slot, {});
  SettleDone(Work());
  kernel_->free = P(2);
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->Snapshot().limbo, P(0));
}

TEST_F(PoolBareTest, WhatNobodyWaitsForAnyMoreIsRetired) {
  Wait(8);
  const SlotId made = Build();
  auto build = Work();
  ASSERT_TRUE(build->bare);
  const SlotId late = build->slot;
  Dequeue(kLease.value());
  EXPECT_EQ(State(made), kRetiring);
  EXPECT_FALSE(SettleDone(std::move(build)).stock_grew);
  EXPECT_EQ(State(late), kRetiring);
  auto retire = Work();
  ASSERT_EQ(retire->kind, WorkKind::kRetire);
  SettleDone(std::move(retire));
  EXPECT_EQ(pool_->Snapshot().limbo, P(0)) << "no page of it was there";
  DoAll();
  EXPECT_EQ(In(kClean), P(16));
}

TEST_F(PoolBareTest, UntakenOrOpenedItIsRetired) {
  Wait(8);
  const SlotId untaken = Build();
  const SlotId opened = Build();
  pool_->Tell(table_->id(opened), {.opened = true});
  EXPECT_EQ(State(opened), kRetiring) << "somebody got at it";
  EXPECT_EQ(Take(4, Terms()), untaken);
  pool_->Untake(untaken);
  EXPECT_EQ(State(untaken), kRetiring);
  Dequeue(kLease.value());
  DoAll();
  EXPECT_EQ(In(kClean), P(16));
}

TEST_F(PoolBareTest, AFillWithoutPagesIsToldAndNoPageIsMissed) {
  Wait(4);
  const SlotId slot = Build();
  EXPECT_EQ(Take(4, Terms()), slot);
  Dequeue(kLease.value());
  pool_->Prepare(slot, {});
  auto fill = Work();
  const PoolNews news = Settle(fill, Outcome::kNoPages, "no page");
  ASSERT_EQ(news.prepared.size(), 1u);
  EXPECT_EQ(news.prepared[0].outcome, Outcome::kNoPages);
  EXPECT_TRUE(IsBare(slot));
  pool_->NeverOpened(slot);
  Return(slot);
  auto probe = Quick();
  Settle(probe, Outcome::kDamaged, "it has no pages");
  EXPECT_EQ(State(slot), kRetiring);
  SettleDone(Work());
  EXPECT_EQ(pool_->Snapshot().limbo, P(0));
}

// Filled half, say: what is there now looks whole to the probe.
TEST_F(PoolBareTest, WhatWasNotFilledIsNeverClearedInPlace) {
  Wait(4);
  const SlotId slot = Build();
  EXPECT_EQ(Take(4, Terms(/*in_place=*/true)), slot);
  Dequeue(kLease.value());
  pool_->Prepare(slot, {});
  auto fill = Work();
  Settle(fill, Outcome::kFailed, "its source is gone");
  pool_->NeverOpened(slot);
  Return(slot);
  auto probe = Quick();
  EXPECT_FALSE(probe->for_reuse);
  SettleDone(std::move(probe));
  EXPECT_EQ(State(slot), kRetiring);
  SettleDone(Work());
}

TEST_F(PoolBareTest, ItsPagesAreNotMissedWhenItIsTakenAway) {
  Wait(4);
  const SlotId slot = Build();
  EXPECT_EQ(Take(4, Terms()), slot);
  Dequeue(kLease.value());
  pool_->Revoke(slot, kLease);
  Return(slot);
  auto probe = Quick();
  ASSERT_TRUE(probe->revoke);
  probe->there = P(0);
  EXPECT_TRUE(Settle(probe, Outcome::kUnknown).shrunk.empty());
  EXPECT_EQ(State(slot), kReturning);
  EXPECT_EQ(pool_->Snapshot().split, Bytes(0)) << "none of them was there";
  const absl::Status books = pool_->CheckInvariants();
  EXPECT_TRUE(books.ok()) << books;
}

TEST_F(PoolBareTest, ABareExtentIsNotVerified) {
  Wait(4);
  const SlotId slot = Build();
  Take(4, Terms());
  Dequeue(kLease.value());
  Preparation look;
  look.verify = true;
  EXPECT_DEATH(pool_->Prepare(slot, look), "no page is there");
}

}  // namespace
}  // namespace hugepool
