// The way back through pool_work.cc: probing, clearing, retiring, letting go.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/pool/pool.h"
#include "daemon/pool/pool_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Outcome = WorkOutcome;

class PoolReturnTest : public PoolFixture {
 protected:
  // What the kernel says.
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

// --- Probing -------------------------------------------------------------------------

TEST_F(PoolReturnTest, InPlaceMemoryIsClearedAndKeptForItsDomain) {
  DoAll();
  const SlotId slot = Returned(4, /*in_place=*/true);
  auto probe = Quick();
  EXPECT_TRUE(probe->for_reuse);
  EXPECT_EQ(Settle(probe, Outcome::kDone).back.size(), 1u);
  EXPECT_EQ(State(slot), kDirty);
  auto clear = Work();
  EXPECT_EQ(clear->kind, WorkKind::kClear);
  EXPECT_EQ(State(slot), kClearing);
  EXPECT_TRUE(Settle(clear, Outcome::kDone).stock_grew);
  EXPECT_EQ(State(slot), kClean);
  EXPECT_EQ(table_->origin(slot), ExtentOrigin::kClearedInPlace);
  EXPECT_EQ(table_->domain(slot), kDomain);
  EXPECT_EQ(pool_->Snapshot().cleared, 1u);
}

TEST_F(PoolReturnTest, AFailedOrTrippedClearingRetires) {
  DoAll();
  for (bool tripped : {false, true}) {
    const SlotId slot = Returned(4, true);
    SettleDone(Quick());
    auto clear = Work();
    ASSERT_EQ(clear->kind, WorkKind::kClear);
    if (tripped) Open(slot);
    Settle(clear, tripped ? Outcome::kDone : Outcome::kFailed);
    EXPECT_EQ(State(slot), kRetiring);
    DoAll();
  }
}

TEST_F(PoolReturnTest, WhateverIsNotWholeAndKnownIsRetired) {
  DoAll();
  const SlotId damaged = Returned(4, true);
  auto probe = Quick();
  EXPECT_EQ(Settle(probe, Outcome::kDamaged).back.size(), 1u);
  EXPECT_EQ(State(damaged), kRetiring);
  for (Outcome outcome : {Outcome::kUnknown, Outcome::kFailed}) {
    const SlotId slot = Returned(1, true);
    while (true) {
      probe = Quick();
      if (probe->kind == WorkKind::kProbe) break;
      Settle(probe, Outcome::kDone);
    }
    EXPECT_TRUE(Settle(probe, outcome).back.empty());
    EXPECT_EQ(State(slot), kReturning) << "unclear counts as held";
    Close(slot);
    probe = Quick();
    EXPECT_FALSE(probe->for_reuse) << "and is not trusted any more";
    Settle(probe, Outcome::kDone);
    EXPECT_EQ(State(slot), kRetiring);
  }
}

TEST_F(PoolReturnTest, FreeByTheProbeButOpenByTheWatchIsRetiredAfterPatience) {
  DoAll();
  const SlotId slot = TakeHeld(4, Terms(/*in_place=*/true));
  Return(slot);  // the watch has told of the opening, of no closing
  for (int look = 0; look < 6; ++look) {
    auto probe = Quick();
    ASSERT_TRUE(probe.has_value()) << look;
    Settle(probe, Outcome::kDone);
    EXPECT_EQ(State(slot), kReturning);
    EXPECT_FALSE(Quick().has_value());
    clock_.Advance(absl::Milliseconds(50));
  }
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(Settle(probe, Outcome::kDone).back.size(), 1u);
  EXPECT_EQ(State(slot), kRetiring) << "never reused in place";
}

TEST_F(PoolReturnTest, LooksBackOffToOneAMinute) {
  DoAll();
  const SlotId slot = TakeHeld(4, Terms());
  Return(slot);
  std::vector<absl::Duration> waits;
  for (int i = 0; i < 14; ++i) {
    auto probe = Quick();
    ASSERT_TRUE(probe.has_value());
    Settle(probe, Outcome::kBusy);
    waits.push_back(pool_->NextLook() - Now());
    clock_.Advance(waits.back());
  }
  EXPECT_EQ(waits[0], absl::Milliseconds(50));
  EXPECT_EQ(waits[1], absl::Milliseconds(100));
  EXPECT_EQ(waits[10], absl::Milliseconds(51200));
  EXPECT_EQ(waits[11], absl::Minutes(1));
  EXPECT_EQ(waits[13], absl::Minutes(1));
  Close(slot);
  auto probe = Quick();
  Settle(probe, Outcome::kBusy);
  EXPECT_EQ(pool_->NextLook() - Now(), absl::Milliseconds(50)) << "anew";
}

// A thousand stuck extents cost next to nothing.
TEST_F(PoolReturnTest, AThousandStuckExtentsAreLookedAtSeventeenTimesASecond) {
  PoolConfig c = Config(1000);
  c.shapes = {P(1)};
  Make(c, 1000);
  DoAll();
  for (int i = 0; i < 1000; ++i) Return(TakeHeld(1, Terms()));
  const absl::Time hour = Now() + absl::Hours(1);
  int looks = 0;
  const auto run_to = [&](absl::Time end) {
    while (pool_->NextLook() <= end) {
      clock_.Advance(std::max(absl::ZeroDuration(), pool_->NextLook() - Now()));
      while (auto probe = Quick()) {
        ++looks;
        Settle(probe, Outcome::kBusy);
      }
    }
    clock_.Advance(end - Now());
  };
  run_to(hour);
  EXPECT_LE(looks, 1000 * (12 + 60));
  looks = 0;
  run_to(hour + absl::Minutes(10));
  EXPECT_LE(looks, 10 * 1000);
  EXPECT_GE(looks, 9 * 1000);
}

// --- Giving back --------------------------------------------------------------------

// Others could take what lies free while something else is done.
TEST_F(PoolReturnTest, EachRetiredExtentIsMadeAgainBeforeTheNextIsRetired) {
  DoAll();
  for (int i = 0; i < 3; ++i) (void)Returned(4, false);
  for (int i = 0; i < 3; ++i) SettleDone(Quick());
  ASSERT_EQ(In(kRetiring), P(12));
  for (int i = 0; i < 3; ++i) {
    auto retire = Work();
    EXPECT_EQ(retire->kind, WorkKind::kRetire);
    Settle(retire, Outcome::kDone);
    auto build = Work();
    EXPECT_EQ(build->kind, WorkKind::kBuild);
    EXPECT_EQ(build->pages, P(4));
    Settle(build, Outcome::kDone);
  }
  EXPECT_FALSE(Work().has_value());
}

TEST_F(PoolReturnTest, PagesAreInLimboUntilTheKernelShowsThem) {
  Kernel(16, 16);
  while (auto build = Work()) {
    Kernel(16, kernel_->free.value() - build->pages.value());
    Settle(build, Outcome::kDone);
  }
  (void)Returned(4, false);
  SettleDone(Quick());  // the probe
  SettleDone(Work());   // the retiring
  EXPECT_EQ(pool_->Snapshot().limbo, P(4));
  EXPECT_FALSE(Work().has_value()) << "the kernel has none free yet";
  EXPECT_EQ(pool_->Snapshot().limbo, P(4)) << "pinned, perhaps";
  Kernel(16, 3);
  auto build = Work();
  EXPECT_EQ(pool_->Snapshot().limbo, P(1));
  Settle(build, Outcome::kDone);
}

// --- Letting go (a kernel without a probe) ------------------------------------------

class LetGoTest : public PoolReturnTest {
 protected:
  LetGoTest() {
    PoolConfig c = Config();
    c.let_go = true;
    Make(c);
    DoAll();
  }
};

TEST_F(LetGoTest, TheDescriptorGoesAtTheAcknowledgement) {
  const SlotId slot = TakeHeld(4, Terms());
  auto item = Quick();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->kind, WorkKind::kLetGo);
  EXPECT_EQ(State(slot), kHeld);
  Settle(item, Outcome::kDone);
  EXPECT_FALSE(Quick().has_value());
  Return(slot);
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  Settle(probe, Outcome::kBusy);
  EXPECT_EQ(pool_->NextLook(), absl::InfiniteFuture()) << "only the watch tells";
  EXPECT_TRUE(Delete(slot));
  probe = Quick();
  EXPECT_EQ(Settle(probe, Outcome::kDone).back.size(), 1u);
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(LetGoTest, AnEndWhileItIsBeingLetGoIsNotLost) {
  const SlotId slot = TakeHeld(4, Terms());
  auto item = Quick();
  EXPECT_FALSE(Delete(slot));
  Settle(item, Outcome::kDone);
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  Settle(probe, Outcome::kDone);
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(LetGoTest, AReturnWhileItIsBeingLetGoIsLookedAtAfterwards) {
  const SlotId slot = TakeHeld(4, Terms());
  auto item = Quick();
  Return(slot);
  EXPECT_FALSE(Quick().has_value());
  Settle(item, Outcome::kDone);
  auto probe = Quick();
  ASSERT_TRUE(probe.has_value());
  Settle(probe, Outcome::kBusy);
  EXPECT_EQ(State(slot), kReturning);
}

TEST_F(LetGoTest, ARolledBackGrantIsLetGoAtTheReturn) {
  const SlotId slot = Take(4, Terms());
  Return(slot);
  auto item = Quick();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->kind, WorkKind::kLetGo);
  Settle(item, Outcome::kDone);
  SettleDone(Quick());
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(LetGoTest, ANamedLeaseKeepsItsDescriptorUntilItEnds) {
  GrantTerms named = Terms();
  named.keep_descriptor = true;
  const SlotId slot = TakeHeld(4, named);
  EXPECT_FALSE(Quick().has_value());
  Return(slot);
  auto item = Quick();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->kind, WorkKind::kLetGo);
  Settle(item, Outcome::kDone);
  auto probe = Quick();
  Settle(probe, Outcome::kBusy);
}

}  // namespace
}  // namespace hugepool
