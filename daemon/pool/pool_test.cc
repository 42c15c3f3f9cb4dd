#include "daemon/pool/pool.h"

#include <gtest/gtest.h>

#include "daemon/pool/pool_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Outcome = WorkOutcome;

class PoolTest : public PoolFixture {
 protected:
  PoolTest() { DoAll(); }
};

TEST_F(PoolTest, TakingMovesBooksLedgerAndFigures) {
  ASSERT_EQ(In(kClean), P(16));
  const SlotId slot = Take(4, Terms());
  EXPECT_EQ(State(slot), kGranted);
  EXPECT_EQ(table_->lease(slot), kLease);
  EXPECT_EQ(table_->domain(slot), kDomain);
  const PoolSnapshot s = pool_->Snapshot();
  EXPECT_EQ(s.in(kGranted), P(4));
  EXPECT_EQ(s.in(kClean), P(12));
  EXPECT_EQ(s.charged, P(16));
  EXPECT_EQ(s.grants, 1u);
  EXPECT_EQ(s.hits, 1u);
  EXPECT_EQ(s.leased_high_water, P(4));
}

TEST_F(PoolTest, AMissIsAGrantButNoHit) {
  {
    MutexLock lock(&pool_->mu());
    (void)pool_->TakeLocked({P(1)}, Terms(), 1, /*hit=*/false);
  }
  EXPECT_EQ(pool_->Snapshot().grants, 1u);
  EXPECT_EQ(pool_->Snapshot().hits, 0u);
}

TEST_F(PoolTest, OwnStockOfTheDomainIsTakenFirst) {
  const SlotId slot = TakeHeld(1, Terms(/*in_place=*/true));
  Return(slot);
  Close(slot);
  DoAll();
  ASSERT_EQ(State(slot), kClean);
  EXPECT_EQ(table_->domain(slot), kDomain);
  GrantTerms other = Terms();
  other.domain = kOther;
  EXPECT_EQ(TotalPages(Usable(kOther)), P(15)) << "not ours to give to others";
  EXPECT_EQ(TotalPages(Usable(kDomain)), P(16));
  EXPECT_EQ(TotalPages(Usable(DomainId())), P(15));
  EXPECT_NE(Take(1, other), slot);
  EXPECT_EQ(Take(1, Terms()), slot);
}

TEST_F(PoolTest, AGrantThatCameToNothingGoesBackToStock) {
  const SlotId slot = Take(1, Terms());
  pool_->Untake(slot);
  EXPECT_EQ(State(slot), kClean);
  EXPECT_EQ(TotalPages(Usable(kOther)), P(16)) << "it is for anybody again";
  EXPECT_EQ(Take(1, Terms()), slot);
  Open(slot);  // ours
  Open(slot);  // somebody else's
  pool_->Untake(slot);
  EXPECT_EQ(State(slot), kReturning);
}

TEST_F(PoolTest, AReturnIsBelievedWhenTheWatchHasSeenAClosingOrAfterAWhile) {
  const SlotId slot = Take(1, Terms());
  Return(slot);
  EXPECT_TRUE(DoAll().empty()) << "the probe says free, the watch nothing";
  size_t back = 0;
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Milliseconds(60));
    back += DoAll().size();
  }
  EXPECT_EQ(back, 1u);
}

TEST_F(PoolTest, AnUnacknowledgedGrantComesBack) {
  const SlotId slot = Take(1, Terms());
  Open(slot);
  Close(slot);
  Return(slot);
  EXPECT_EQ(State(slot), kReturning);
  const auto back = DoAll();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].lease, kLease);
  EXPECT_EQ(back[0].domain, kDomain);
  EXPECT_EQ(back[0].size, MiB(2));
  EXPECT_EQ(In(kClean), P(16));
}

TEST_F(PoolTest, ReturnOfAHeldExtentIsProbedAtOnceAndRetired) {
  const SlotId slot = TakeHeld(4, Terms());
  const ExtentId id = table_->id(slot);
  EXPECT_FALSE(Quick().has_value()) << "a SESSION lease is not asked about";
  Return(slot);
  Close(slot);
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->kind, WorkKind::kProbe);
  EXPECT_FALSE(probe->live);
  EXPECT_FALSE(probe->for_reuse);
  EXPECT_EQ(State(slot), kProbing);
  const PoolNews news = Settle(probe, Outcome::kDone);
  ASSERT_EQ(news.back.size(), 1u);
  EXPECT_EQ(news.back[0].extent, id);
  EXPECT_FALSE(table_->lease(slot).valid());
  EXPECT_EQ(State(slot), kRetiring);
  auto retire = Work();
  ASSERT_TRUE(retire.has_value());
  EXPECT_EQ(retire->kind, WorkKind::kRetire);
  Settle(retire, Outcome::kDone);
  EXPECT_EQ(State(slot), kEmpty);
  EXPECT_EQ(pool_->Snapshot().retired, 1u);
}

// Its memory came back by itself, and the news is still on its way.
TEST_F(PoolTest, ReturnByALeaseThatHasTheExtentNoMoreDoesNothing) {
  const SlotId slot = TakeHeld(1, Terms(false, /*memory=*/true));
  Close(slot);
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  EXPECT_TRUE(probe->live);
  Settle(probe, Outcome::kDone);
  ASSERT_EQ(State(slot), kRetiring);
  Return(slot);
  EXPECT_EQ(State(slot), kRetiring);
  SettleDone(Work());
  ASSERT_EQ(State(slot), kEmpty);
  Return(slot);
  DoAll();
  GrantTerms next = Terms();
  next.lease = LeaseId(78);
  const SlotId again = TakeHeld(1, next);
  ASSERT_EQ(again, slot) << "the slot serves another lease now";
  Return(slot);
  EXPECT_EQ(State(slot), kHeld);
}

TEST_F(PoolTest, ReturnWhileItIsBeingProbedIsLeftToTheSettling) {
  const SlotId slot = TakeHeld(1, Terms(false, /*memory=*/true));
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  Return(slot);
  EXPECT_EQ(State(slot), kProbing);
  Settle(probe, Outcome::kBusy);
  EXPECT_EQ(State(slot), kReturning) << "not Held: its lease has ended";
  EXPECT_LT(pool_->NextLook(), absl::InfiniteFuture());
}

TEST_F(PoolTest, WithdrawnPermissionRetires) {
  const SlotId slot = TakeHeld(1, Terms(/*in_place=*/true));
  Return(slot, /*keep=*/false);
  Close(slot);
  auto probe = Quick();
  EXPECT_FALSE(probe->for_reuse);
  Settle(probe, Outcome::kDone);
  EXPECT_EQ(State(slot), kRetiring);
}

// --- The watch ----------------------------------------------------------------

TEST_F(PoolTest, NewsOfAnExtentThatEndedIsIgnored) {
  const SlotId slot = TakeHeld(1, Terms());
  const ExtentId id = table_->id(slot);
  Return(slot);
  Close(slot);
  DoAll();
  EXPECT_FALSE(pool_->Tell(id, {.opened = true}));
  EXPECT_FALSE(pool_->Tell(id, {.deleted = true}));
  EXPECT_EQ(In(kClean), P(16)) << "the slot's next extent was not tripped";
}

TEST_F(PoolTest, OpeningACleanExtentTripsTheWire) {
  const SlotId slot = Take(1, Terms());
  (void)slot;
  const auto living = table_->Living();
  for (SlotId s : living) {
    if (State(s) != kClean) continue;
    const PageCount pages = table_->pages(s);
    const PageCount before = TotalPages(Usable(kDomain));
    EXPECT_TRUE(Open(s)) << "there is work";
    EXPECT_EQ(State(s), kRetiring);
    EXPECT_EQ(TotalPages(Usable(kDomain)), before - pages);
    break;
  }
}

TEST_F(PoolTest, AnUnexpectedOpeningForbidsReuse) {
  const SlotId slot = TakeHeld(1, Terms(/*in_place=*/true));
  Open(slot);  // the holder's, through /proc
  Close(slot);
  Return(slot);
  auto probe = Quick();
  EXPECT_FALSE(probe->for_reuse);
  Settle(probe, Outcome::kDone);
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(PoolTest, AnAnnouncedOpeningDoesNot) {
  const SlotId slot = TakeHeld(1, Terms(/*in_place=*/true));
  pool_->ExpectOpen(slot);
  Open(slot);
  Close(slot);
  Return(slot);
  auto probe = Quick();
  EXPECT_TRUE(probe->for_reuse);
  Settle(probe, Outcome::kDone);
  EXPECT_EQ(State(slot), kDirty);
}

TEST_F(PoolTest, ClosingMakesWorkOnlyWhereItMatters) {
  const SlotId held = TakeHeld(1, Terms());
  EXPECT_FALSE(Close(held)) << "a SESSION lease lives on";
  EXPECT_FALSE(Quick().has_value());
  const SlotId memory = TakeHeld(1, Terms(false, /*memory=*/true));
  auto probe = Quick();  // at the acknowledgement
  Settle(probe, Outcome::kBusy);
  EXPECT_EQ(State(memory), kHeld);
  EXPECT_FALSE(Quick().has_value());
  EXPECT_EQ(pool_->NextLook(), absl::InfiniteFuture()) << "the watch tells";
  EXPECT_TRUE(Close(memory));
  probe = Quick();
  EXPECT_TRUE(probe->live);
  EXPECT_TRUE(pool_->Tell(table_->id(held), {.deleted = true}));
  const PoolNews news = Settle(probe, Outcome::kDone);
  EXPECT_EQ(news.back.size(), 1u);
}

TEST_F(PoolTest, ClosingDuringTheProbeIsNotLost) {
  const SlotId slot = TakeHeld(1, Terms());
  Return(slot);
  auto probe = Quick();
  EXPECT_FALSE(Close(slot)) << "whoever probes will see to it";
  Settle(probe, Outcome::kBusy);  // it had asked before the close
  probe = Quick();
  ASSERT_TRUE(probe.has_value()) << "asked again at once";
  Settle(probe, Outcome::kDone);
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(PoolTest, LostNewsMeansLookingAtEverythingAndReusingNothing) {
  const SlotId memory = TakeHeld(1, Terms(true, /*memory=*/true));
  auto probe = Quick();
  Settle(probe, Outcome::kBusy);
  const SlotId returning = TakeHeld(1, Terms(true));
  Return(returning);
  probe = Quick();
  Settle(probe, Outcome::kBusy);
  const SlotId held = TakeHeld(1, Terms(true));
  ASSERT_FALSE(Quick().has_value());
  pool_->TellLost();
  for (int i = 0; i < 2; ++i) {
    probe = Quick();
    ASSERT_TRUE(probe.has_value());
    EXPECT_FALSE(probe->for_reuse);
    EXPECT_TRUE(probe->slot == memory || probe->slot == returning);
    Settle(probe, Outcome::kDone);
  }
  EXPECT_EQ(State(memory), kRetiring);
  EXPECT_EQ(State(returning), kRetiring);
  EXPECT_EQ(State(held), kHeld);
}

// --- The queue ------------------------------------------------------------------

TEST_F(PoolTest, LaterRequestsMayPassAsOftenAsTheBoundAllows) {
  Enqueue(/*lease=*/1, /*sequence=*/10, /*pages=*/20);
  EXPECT_TRUE(MayPass(5, 1000)) << "came before";
  EXPECT_TRUE(MayPass(11, 20));
  EXPECT_FALSE(MayPass(11, 21));
  (void)Take(4, Terms(), /*sequence=*/11);
  EXPECT_TRUE(MayPass(12, 16));
  EXPECT_FALSE(MayPass(12, 17));
  (void)Take(4, Terms(), /*sequence=*/5);
  EXPECT_TRUE(MayPass(12, 16)) << "an earlier one does not pass it";
  EXPECT_TRUE(Dequeue(1));
  EXPECT_FALSE(Dequeue(1));
  EXPECT_TRUE(MayPass(12, 1000));
}

TEST_F(PoolTest, TheQueueIsInOrderOfArrival) {
  Enqueue(1, 30, 100);
  Enqueue(2, 10, 16);
  EXPECT_TRUE(MayPass(20, 16));
  EXPECT_FALSE(MayPass(20, 17)) << "only number 10 came before 20";
  EXPECT_EQ(pool_->Snapshot().waiters, 2u);
  EXPECT_TRUE(pool_->HasWaiters());
}

// --- Contracts --------------------------------------------------------------------

using PoolDeathTest = PoolTest;

TEST_F(PoolDeathTest, HeldInAnyOtherStateThanGrantedDies) {
  const SlotId slot = TakeHeld(1, Terms());
  EXPECT_DEATH(pool_->Held(slot), "is held, not granted");
  Return(slot);
  EXPECT_DEATH(pool_->Held(slot), "is returning, not granted");
  EXPECT_DEATH(Return(slot), "returning -> returning");
}

TEST_F(PoolDeathTest, TakingWhatIsNotThereDies) {
  EXPECT_DEATH(Take(9, Terms()), "not usable");
}

// Not one of the pool's: the ledger is shared with the child that dies.
TEST(WorkItemDeathTest, AWorkItemMustBeSettled) {
  const auto drop = [] {
    const WorkItem item(WorkKind::kProbe, SlotId(1), NodeId(0), k2M,
                        PageCount(1));
  };
  EXPECT_DEATH(drop(), "dropped without settling");
}

}  // namespace
}  // namespace hugepool
