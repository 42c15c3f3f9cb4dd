#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/pool/pool.h"
#include "daemon/pool/pool_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Outcome = WorkOutcome;

class PoolWorkTest : public PoolFixture {
 protected:
  // What the kernel says; nothing reserved.
  void Kernel(uint64_t total, uint64_t free, uint64_t reserved = 0) {
    kernel_ = sys::KernelCounters{P(total), P(free), P(0), P(reserved), false};
  }
  // Takes one extent and sends it back, watched close included.
  SlotId Returned(uint64_t shape, bool in_place) {
    const SlotId slot = TakeHeld(shape, Terms(in_place));
    Return(slot);
    Close(slot);
    return slot;
  }
};

// --- Building -----------------------------------------------------------------

TEST_F(PoolWorkTest, FillsUpToTheTargetByThePlanOfShapes) {
  DoAll();
  EXPECT_EQ(pool_->Snapshot().clean, (ShapeCounts{{P(4), 3}, {P(1), 4}}));
  EXPECT_EQ(pool_->Snapshot().wanted, (ShapeCounts{{P(4), 3}, {P(1), 4}}));
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->NextLook(), absl::InfiniteFuture());
}

TEST_F(PoolWorkTest, ABuildIsPopulatingUntilItIsSettled) {
  auto build = Work();
  ASSERT_TRUE(build.has_value());
  EXPECT_EQ(build->kind, WorkKind::kBuild);
  EXPECT_EQ(build->node, kNode);
  EXPECT_EQ(build->from, P(0));
  EXPECT_TRUE(build->urgent) << "under the low watermark";
  EXPECT_EQ(State(build->slot), kPopulating);
  pool_->SetInode(*build, 4711);
  EXPECT_EQ(table_->inode(build->slot), 4711u);
  EXPECT_EQ(TotalPages(Usable(kDomain)), P(0));
  const SlotId slot = build->slot;
  EXPECT_TRUE(Settle(build, Outcome::kDone).stock_grew);
  EXPECT_EQ(State(slot), kClean);
  EXPECT_EQ(table_->origin(slot), ExtentOrigin::kPopulated);
}

TEST_F(PoolWorkTest, AboveTheLowWatermarkNothingIsUrgent) {
  SettleDone(Work());
  auto build = Work();
  EXPECT_FALSE(build->urgent);
  Settle(build, Outcome::kDone);
}

TEST_F(PoolWorkTest, TheHighWatermarkBoundsCleanStockAndTheTargetAll) {
  PoolConfig c = Config(16);
  c.high = P(6);
  Make(c);
  DoAll();
  EXPECT_EQ(In(kClean), P(6));
  (void)Take(4, Terms());
  DoAll();
  EXPECT_EQ(In(kClean), P(6));
  EXPECT_EQ(pool_->Snapshot().wanted, (ShapeCounts{{P(4), 1}, {P(1), 2}}))
      << "planned for the stock, whatever is leased";
  (void)Take(4, Terms());
  (void)Take(1, Terms());
  (void)Take(1, Terms());
  DoAll();
  EXPECT_EQ(In(kClean), P(6));
  EXPECT_EQ(pool_->Snapshot().charged, P(16));
  (void)Take(1, Terms());
  DoAll();
  EXPECT_EQ(In(kClean), P(5)) << "the target is reached";
}

TEST_F(PoolWorkTest, NoMoreThanTheKernelHasFree) {
  Kernel(5, 5);
  auto build = Work();
  ASSERT_EQ(build->pages, P(4));
  EXPECT_EQ(build->pages, P(4));
  auto second = Work();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->pages, P(1)) << "the 4 being populated count as used";
  EXPECT_FALSE(Work().has_value());
  Settle(build, Outcome::kDone);
  Settle(second, Outcome::kDone);
  Kernel(5, 0);
  EXPECT_FALSE(Work().has_value());
}

TEST_F(PoolWorkTest, AFailedBuildIsGivenBackAndTriedLater) {
  auto build = Work();
  const SlotId slot = build->slot;
  EXPECT_FALSE(Settle(build, Outcome::kNoPages, "node 3 has none").stock_grew);
  EXPECT_EQ(State(slot), kRetiring) << "what it got goes back (K3)";
  EXPECT_EQ(pool_->Snapshot().shortfall, "node 3 has none");
  SettleDone(Work());  // the retiring
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->NextLook(), Now() + absl::Milliseconds(100));
  clock_.Advance(absl::Milliseconds(99));
  EXPECT_FALSE(Work().has_value());
  clock_.Advance(absl::Milliseconds(1));
  build = Work();
  ASSERT_TRUE(build.has_value());
  Settle(build, Outcome::kDone);
  EXPECT_EQ(pool_->Snapshot().shortfall, "");
}

TEST_F(PoolWorkTest, TheBackoffDoublesUpToFiveSeconds) {
  std::vector<absl::Duration> waits;
  for (int i = 0; i < 8; ++i) {
    auto build = Work();
    ASSERT_TRUE(build.has_value());
    Settle(build, Outcome::kFailed);
    SettleDone(Work());  // the remains are retired: no reason to try again
    EXPECT_FALSE(Work().has_value());
    waits.push_back(pool_->NextLook() - Now());
    clock_.Advance(waits.back());
  }
  EXPECT_EQ(waits.front(), absl::Milliseconds(100));
  EXPECT_EQ(waits[1], absl::Milliseconds(200));
  EXPECT_EQ(waits[5], absl::Milliseconds(3200));
  EXPECT_EQ(waits[6], absl::Seconds(5));
  EXPECT_EQ(waits[7], absl::Seconds(5));
}

// Otherwise the steward spins: it finds nothing and is told to look at once.
TEST_F(PoolWorkTest, AfterTheBackoffNothingIsToBeLookedAtWhileTheKernelHasNone) {
  auto build = Work();
  Settle(build, Outcome::kNoPages);
  Kernel(0, 0);
  clock_.Advance(absl::Seconds(1));
  SettleDone(Work());  // the failed one's retirement
  EXPECT_FALSE(Work().has_value());
  EXPECT_GT(pool_->NextLook(), Now());
  EXPECT_EQ(pool_->Snapshot().retired, 0u);
  EXPECT_EQ(pool_->Snapshot().limbo, P(0));
}

TEST_F(PoolWorkTest, OthersReservationsCountOnceABuildHasFailed) {
  Kernel(16, 6, /*reserved=*/5);
  auto build = Work();
  EXPECT_EQ(build->pages, P(4));
  Settle(build, Outcome::kNoPages);
  SettleDone(Work());
  clock_.Advance(absl::Milliseconds(100));
  build = Work();
  EXPECT_EQ(build->pages, P(1)) << "of 6, 5 are spoken for";
  Settle(build, Outcome::kDone);
}

TEST_F(PoolWorkTest, AFullTableSaysSo) {
  Make(Config(), /*slots=*/2);
  DoAll();
  EXPECT_EQ(In(kClean), P(8));
  EXPECT_EQ(pool_->Snapshot().shortfall,
            "the extent table is full (limits.max_extents: 2)");
}

TEST_F(PoolWorkTest, AfterStopFillingNothingIsBuilt) {
  pool_->StopFilling();
  EXPECT_FALSE(Work().has_value());
  EXPECT_EQ(pool_->NextLook(), absl::InfiniteFuture());
}

TEST_F(PoolWorkTest, AnExtentOpenedWhileItWasBuiltIsNeverClean) {
  auto build = Work();
  const SlotId slot = build->slot;
  EXPECT_FALSE(Open(slot));
  EXPECT_FALSE(Settle(build, Outcome::kDone).stock_grew);
  EXPECT_EQ(State(slot), kRetiring);
}

// --- Waiters ----------------------------------------------------------------------

TEST_F(PoolWorkTest, OneExtentIsGrownToOrder) {
  DoAll();
  for (int i = 0; i < 2; ++i) (void)Returned(4, false);
  Enqueue(1, 10, 6, /*max_extents=*/1);
  while (auto quick = Quick()) SettleDone(std::move(quick));
  SettleDone(Work());  // one retiring: its pages are used at once
  auto build = Work();
  ASSERT_TRUE(build.has_value());
  EXPECT_EQ(build->pages, P(6));
  EXPECT_EQ(build->from, P(4));
  EXPECT_TRUE(build->urgent);
  EXPECT_EQ(table_->pages(build->slot), P(6));
  EXPECT_EQ(State(build->slot), kPopulating);
  EXPECT_EQ(pool_->Snapshot().charged, P(14)) << "one is still retiring";
  Settle(build, Outcome::kDone);
  EXPECT_EQ(Usable(kDomain)[P(6)], 1u);
}

TEST_F(PoolWorkTest, AFailedGrowthGivesAllOfItBack) {
  DoAll();
  (void)Returned(4, false);
  Enqueue(1, 10, 6, 1);
  while (auto quick = Quick()) SettleDone(std::move(quick));
  SettleDone(Work());  // one retiring: its pages are used at once
  auto build = Work();
  ASSERT_EQ(build->from, P(4));
  Settle(build, Outcome::kNoPages);
  EXPECT_EQ(In(kRetiring), P(6));
  SettleDone(Work());
  EXPECT_EQ(pool_->Snapshot().charged, P(8));
}

TEST_F(PoolWorkTest, StockIsDismantledForAWaiterThatNeedsOtherExtents) {
  DoAll();
  Enqueue(1, 10, 16, /*max_extents=*/1);
  auto retire = Work();
  ASSERT_TRUE(retire.has_value());
  EXPECT_EQ(retire->kind, WorkKind::kRetire);
  EXPECT_EQ(State(retire->slot), kRetiring);
  Settle(retire, Outcome::kDone);
  DoAll();
  EXPECT_EQ(pool_->Snapshot().clean, (ShapeCounts{{P(16), 1}}));
}

TEST_F(PoolWorkTest, FillingStopsForAWaiterWhoseMemoryIsOnItsWay) {
  DoAll();
  const SlotId slot = TakeHeld(4, Terms());
  const SlotId other = TakeHeld(1, Terms());
  Return(other);
  Close(other);
  while (auto quick = Quick()) SettleDone(std::move(quick));
  SettleDone(Work());  // one retiring: its pages are used at once
  Enqueue(1, 10, 16, 1);  // more than comes back: only what is leased helps
  EXPECT_FALSE(Work().has_value()) << "nor is the free page filled up";
  Dequeue(1);
  SettleDone(Work());
  EXPECT_EQ(In(kClean), P(12));
  EXPECT_EQ(State(slot), kHeld);
}

}  // namespace
}  // namespace hugepool
