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

}  // namespace
}  // namespace hugepool
