#include "daemon/pool/host.h"

#include <thread>

#include <gtest/gtest.h>

#include "daemon/base/refusal.h"

namespace hugepool {
namespace {

using enum RefusalReason;

constexpr NodeId kNode0{0};
constexpr NodeId kNode2{2};
constexpr DomainId kDomain{1};

PageCount P(uint64_t n) { return PageCount(n); }
Bytes Pages(uint64_t n) { return MiB(2) * n; }

PoolConfig Pool2M(NodeId node, uint64_t target) {
  PoolConfig c;
  c.node = node;
  c.target = c.high = P(target);
  c.shapes = {P(4), P(1)};
  c.learn_shapes = false;
  return c;
}

class HostTest : public testing::Test {
 protected:
  void Make(const std::vector<PoolConfig>& pools, Host::Limits limits = {}) {
    table_ = *ExtentTable::Create(1024);
    host_ = std::make_unique<Host>(
        pools, std::vector<NodeId>{kNode0, kNode2}, table_.get(), limits);
    for (const auto& pool : host_->pools()) Work(*pool);
  }
  HostTest() { Make({Pool2M(kNode0, 16), Pool2M(kNode2, 8)}); }
  void TearDown() override {
    const absl::Status books = host_->CheckInvariants();
    EXPECT_TRUE(books.ok()) << books;
  }

  // All work of a pool, probes saying free.
  void Work(Pool& pool) {
    const absl::Time now = absl::UnixEpoch();
    while (true) {
      if (auto quick = pool.TakeQuickWork(now)) {
        (void)pool.Settle(*std::move(quick), WorkOutcome::kDone, "", now);
      } else if (auto work = pool.TakeWork(now, std::nullopt)) {
        (void)pool.Settle(*std::move(work), WorkOutcome::kDone, "", now);
      } else {
        return;
      }
    }
  }
  HostRequest Request(std::vector<SegmentRequest> segments) {
    HostRequest r;
    r.segments = std::move(segments);
    r.terms.lease = LeaseId(++leases_);
    r.terms.domain = kDomain;
    return r;
  }
  static SegmentRequest Segment(uint64_t pages, std::vector<NodeId> bind = {},
                                uint32_t max_extents = 0) {
    SegmentRequest s;
    s.size = Pages(pages);
    s.page_sizes = {k2M};
    if (!bind.empty()) s.mode = PlacementMode::kBind;
    s.nodes = std::move(bind);
    s.max_extents = max_extents;
    return s;
  }
  absl::StatusOr<Taken> Take(uint64_t pages, std::vector<NodeId> bind = {},
                             uint32_t max_extents = 0) {
    return host_->Take(Request({Segment(pages, std::move(bind), max_extents)}));
  }
  // Queues it; its lease.
  LeaseId Wait(std::vector<SegmentRequest> segments) {
    HostRequest r = Request(std::move(segments));
    auto waited = host_->TakeOrWait(r);
    EXPECT_TRUE(waited.ok()) << waited.status();
    EXPECT_EQ(*waited, nullptr);
    return r.terms.lease;
  }
  // Brings all of it back; the lease is that of its ledger entry.
  void GiveBack(const Taken& taken) {
    for (const TakenExtent& e : taken.extents) {
      Pool& pool = host_->PoolOf(e);
      // A holder came and went.
      pool.Tell(e.id, {.opened = true});
      pool.Tell(e.id, {.closed = true});
      pool.Return(e.slot, table_->lease(e.slot), true);
      Work(pool);
    }
  }
  std::vector<LeaseId> Serve() {
    std::vector<LeaseId> leases;
    for (Host::Served& s : host_->ServeWaiters()) {
      leases.push_back(s.lease);
      served_.push_back(std::move(s));
    }
    return leases;
  }
  static Refusal RefusalIn(const absl::Status& status) {
    const auto refusal = RefusalOf(status);
    EXPECT_TRUE(refusal.has_value()) << status;
    return refusal.value_or(Refusal{});
  }
  PageCount Clean(size_t pool) {
    return host_->pools()[pool]->Snapshot().in(ExtentState::kClean);
  }

  uint64_t leases_ = 0;
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<Host> host_;
  std::vector<Host::Served> served_;
};

// --- Taking -------------------------------------------------------------------

TEST_F(HostTest, ExtentsAreInOrderOfSegmentAndOffset) {
  SegmentRequest odd = Segment(5, {kNode0});
  odd.size = Pages(4) + Bytes(1);
  auto taken = host_->Take(Request({odd, Segment(4, {kNode2})}));
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_EQ(taken->extents.size(), 3u);
  EXPECT_EQ(taken->segments[0].granted, Pages(5)) << "rounded up (N21)";
  EXPECT_EQ(taken->extents[0].offset, Bytes(0));
  EXPECT_EQ(taken->extents[0].size, Pages(4));
  EXPECT_EQ(taken->extents[1].offset, Pages(4));
  EXPECT_EQ(taken->extents[1].size, Pages(1));
  EXPECT_EQ(taken->extents[2].segment, 1u);
  EXPECT_EQ(taken->extents[2].offset, Bytes(0));
  EXPECT_EQ(taken->extents[2].node, kNode2);
  EXPECT_EQ(taken->extents[2].origin, ExtentOrigin::kPopulated);
  EXPECT_EQ(&host_->PoolOf(taken->extents[2]), host_->pools()[1].get());
}

TEST_F(HostTest, AllSegmentsOrNone) {
  const auto taken =
      host_->Take(Request({Segment(8, {kNode2}), Segment(16, {kNode0})}));
  ASSERT_TRUE(taken.ok());
  GiveBack(*taken);
  ASSERT_TRUE(Take(1, {kNode0}).ok());
  const auto refused =
      host_->Take(Request({Segment(8, {kNode2}), Segment(16, {kNode0})}));
  EXPECT_EQ(RefusalIn(refused.status()).reason, kPoolShort);
  EXPECT_EQ(Clean(1), P(8)) << "the first segment was not kept";
}

TEST_F(HostTest, AShortfallIsNamedByBytes) {
  ASSERT_TRUE(Take(10, {kNode0}).ok());
  const Refusal one = RefusalIn(Take(8, {kNode0}).status());
  EXPECT_EQ(one.reason, kPoolShort);
  EXPECT_EQ(one.wanted, Pages(8));
  EXPECT_EQ(one.available, Pages(6));
  EXPECT_NE(one.hint.find("short by 4 MiB"), std::string::npos) << one.hint;
}

TEST_F(HostTest, CleanMemoryIsCountedOnceForAllSegments) {
  ASSERT_TRUE(Take(6, {kNode0}).ok());
  const Refusal both = RefusalIn(
      host_->Take(Request({Segment(8, {kNode0}), Segment(8, {kNode0})}))
          .status());
  EXPECT_EQ(both.reason, kPoolShort);
  EXPECT_EQ(both.wanted, Pages(16));
  EXPECT_EQ(both.available, Pages(10));
  EXPECT_NE(both.hint.find("short by 12 MiB"), std::string::npos) << both.hint;
}

TEST_F(HostTest, WhatCanNeverBeIsRefusedAtOnce) {
  EXPECT_EQ(RefusalIn(Take(17, {kNode0}).status()).reason, kNeverFits);
  EXPECT_EQ(RefusalIn(Take(25).status()).reason, kNeverFits);
  const auto together = host_->Take(
      Request({Segment(10, {kNode0}), Segment(7, {kNode0})}));
  EXPECT_EQ(RefusalIn(together.status()).reason, kNeverFits)
      << "each fits alone";
  EXPECT_EQ(RefusalIn(host_->TakeOrWait(Request({Segment(25)})).status()).reason,
            kNeverFits)
      << "nobody waits for what cannot come";
  EXPECT_EQ(RefusalIn(host_->Take(Request({})).status()).reason, kBadRequest);
}

TEST_F(HostTest, TooManyExtents) {
  Host::Limits limits;
  limits.max_extents_per_lease = 3;
  Make({Pool2M(kNode0, 16)}, limits);
  const Refusal many = RefusalIn(Take(16).status());  // 4 x 4 at best
  EXPECT_EQ(many.reason, kTooManyExtents);
  EXPECT_TRUE(Take(12).ok());
  const auto segments = host_->Take(
      Request({Segment(1), Segment(1), Segment(1), Segment(1)}));
  EXPECT_EQ(RefusalIn(segments.status()).reason, kTooManyExtents);
}

TEST_F(HostTest, APageOutOfALargerExtentIsNotHadByMoreExtents) {
  Make({Pool2M(kNode0, 16)});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Take(1).ok());
  const Refusal one = RefusalIn(Take(1).status());
  EXPECT_EQ(one.reason, kPoolShort);
  EXPECT_NE(one.hint.find("in extents of other sizes"), std::string::npos);
  const LeaseId lease = Wait({Segment(1)});
  Work(*host_->pools()[0]);
  EXPECT_EQ(Serve(), std::vector<LeaseId>{lease}) << "rebuilt for a waiter";
}

TEST_F(HostTest, OneExtentOfAnotherShapeIsShortOfExtentsNotOfMemory) {
  const Refusal one = RefusalIn(Take(6, {kNode0}, 1).status());
  EXPECT_EQ(one.reason, kPoolShort);
  EXPECT_EQ(one.available, Pages(6));
  EXPECT_NE(one.hint.find("in extents of other sizes"), std::string::npos);
}

TEST_F(HostTest, DrainingRefusesAndCanEnd) {
  host_->SetDraining(true);
  EXPECT_TRUE(host_->draining());
  EXPECT_EQ(RefusalIn(Take(1).status()).reason, kDraining);
  EXPECT_EQ(RefusalIn(host_->TakeOrWait(Request({Segment(1)})).status()).reason,
            kDraining);
  host_->SetDraining(false);
  EXPECT_TRUE(Take(1).ok());
}

// N20: two ask for the last 8 pages; exactly one gets them, every time.
TEST_F(HostTest, TwoAskForTheLastEightPages) {
  for (int round = 0; round < 50; ++round) {
    Make({Pool2M(kNode0, 8)});
    std::vector<absl::StatusOr<Taken>> got(2, absl::UnknownError(""));
    const HostRequest requests[] = {Request({Segment(8)}),
                                    Request({Segment(8)})};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { got[i] = host_->Take(requests[i]); });
    }
    for (std::thread& t : threads) t.join();
    ASSERT_NE(got[0].ok(), got[1].ok());
    const Refusal loser = RefusalIn(got[got[0].ok() ? 1 : 0].status());
    EXPECT_EQ(loser.reason, kPoolShort);
    EXPECT_EQ(loser.available, Bytes(0));
  }
}

// --- Waiting --------------------------------------------------------------------

TEST_F(HostTest, WhatIsThereIsTakenWithoutWaiting) {
  auto taken = host_->TakeOrWait(Request({Segment(4)}));
  ASSERT_TRUE(taken.ok());
  ASSERT_NE(*taken, nullptr);
  EXPECT_EQ((*taken)->extents.size(), 1u);
  EXPECT_TRUE(host_->Waits().empty());
}

TEST_F(HostTest, AWaiterIsServedWhenItsMemoryComes) {
  const auto taken = Take(16, {kNode0});
  const LeaseId lease = Wait({Segment(6, {kNode0})});
  EXPECT_TRUE(Serve().empty());
  const auto waits = host_->Waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].lease, lease);
  EXPECT_EQ(waits[0].wanted, Pages(6));
  EXPECT_EQ(waits[0].available, Bytes(0));
  GiveBack(*taken);
  EXPECT_EQ(Serve(), std::vector<LeaseId>{lease});
  EXPECT_TRUE(host_->Waits().empty());
  EXPECT_EQ(host_->pools()[0]->Snapshot().waiters, 0u);
}

// Also within one large extent: it would be nothing for long, and then all.
TEST_F(HostTest, AWaiterSeesHowMuchIsThereOfWhatIsBuiltForIt) {
  const auto taken = Take(16, {kNode0});
  (void)Wait({Segment(16, {kNode0}, /*max_extents=*/1)});
  Pool& pool = *host_->pools()[0];
  for (const TakenExtent& e : taken->extents) {
    pool.Tell(e.id, {.opened = true});
    pool.Tell(e.id, {.closed = true});
    pool.Return(e.slot, table_->lease(e.slot), false);
  }
  const absl::Time now = absl::UnixEpoch();
  while (auto quick = pool.TakeQuickWork(now)) {
    (void)pool.Settle(*std::move(quick), WorkOutcome::kDone, "", now);
  }
  for (size_t i = 0; i < taken->extents.size(); ++i) {
    auto retire = pool.TakeWork(now, std::nullopt);
    ASSERT_EQ(retire->kind, WorkKind::kRetire);
    (void)pool.Settle(*std::move(retire), WorkOutcome::kDone, "", now);
  }
  auto build = pool.TakeWork(now, std::nullopt);
  ASSERT_TRUE(build.has_value());
  EXPECT_EQ(build->pages, P(16));
  const auto available = [this] { return host_->Waits()[0].available; };
  EXPECT_EQ(available(), Bytes(0));
  pool.NoteMade(P(5));
  EXPECT_EQ(available(), Pages(5));
  EXPECT_EQ(pool.Snapshot().made, P(5));
  pool.NoteMade(P(11));
  EXPECT_EQ(available(), Pages(16));
  (void)pool.Settle(*std::move(build), WorkOutcome::kDone, "", now);
  EXPECT_EQ(available(), Pages(16)) << "counted once";
  EXPECT_EQ(pool.Snapshot().made, P(0));
  EXPECT_EQ(Serve().size(), 1u);
}

TEST_F(HostTest, ACancelledWaiterIsGoneFromAllPools) {
  (void)Take(16, {kNode0});
  (void)Take(8, {kNode2});
  const LeaseId lease = Wait({Segment(6, {kNode0}), Segment(2, {kNode2})});
  EXPECT_EQ(host_->pools()[0]->Snapshot().waiters, 1u);
  EXPECT_EQ(host_->pools()[1]->Snapshot().waiters, 1u);
  EXPECT_TRUE(host_->CancelWait(lease));
  EXPECT_FALSE(host_->CancelWait(lease));
  EXPECT_EQ(host_->pools()[0]->Snapshot().waiters, 0u);
  EXPECT_EQ(host_->pools()[1]->Snapshot().waiters, 0u);
}

TEST_F(HostTest, OneExtentIsBuiltForTheWaiter) {
  const LeaseId lease = Wait({Segment(13, {kNode0}, /*max_extents=*/1)});
  Work(*host_->pools()[0]);
  EXPECT_EQ(Serve(), std::vector<LeaseId>{lease});
  ASSERT_EQ(served_[0].taken.extents.size(), 1u);
  EXPECT_EQ(served_[0].taken.extents[0].size, Pages(13));
}

// Each part could be composed of single pages, but not both in the lease's
// extents: they must be rebuilt, or it waits for ever.
TEST_F(HostTest, SegmentsThatShareTheExtentLimitAreRebuilt) {
  Host::Limits limits;
  limits.max_extents_per_lease = 8;
  PoolConfig c = Pool2M(kNode0, 12);
  c.shapes = {P(1)};
  Make({c}, limits);
  const LeaseId lease = Wait({Segment(6), Segment(6)});
  Work(*host_->pools()[0]);
  EXPECT_EQ(Serve(), std::vector<LeaseId>{lease});
}

TEST_F(HostTest, TheQueueHasABound) {
  Host::Limits limits;
  limits.max_waiters = 2;
  Make({Pool2M(kNode0, 8)}, limits);
  (void)Take(8);
  (void)Wait({Segment(1)});
  (void)Wait({Segment(1)});
  EXPECT_EQ(RefusalIn(host_->TakeOrWait(Request({Segment(1)})).status()).reason,
            kPoolShort);
}

// A huge request neither idles those behind it nor is passed for ever.
TEST_F(HostTest, AHugeRequestIsPassedOnceItsOwnSizeAndThenServed) {
  Make({Pool2M(kNode0, 32)});
  const auto first = Take(16);
  const LeaseId huge = Wait({Segment(32)});
  uint64_t passed = 0;
  while (true) {
    const auto small = Take(4);
    if (!small.ok()) {
      EXPECT_EQ(RefusalIn(small.status()).reason, kPoolShort);
      break;
    }
    passed += 4;
    ASSERT_LE(passed, 32u);
    GiveBack(*small);
    EXPECT_TRUE(Serve().empty());
  }
  EXPECT_EQ(passed, 32u) << "the pool did not idle meanwhile";
  EXPECT_EQ(Clean(0), P(16));
  GiveBack(*first);
  EXPECT_EQ(Serve(), std::vector<LeaseId>{huge});
}

TEST_F(HostTest, WaitersOfTheSameSizeAreServedInOrder) {
  Make({Pool2M(kNode0, 8)});
  const auto taken = Take(8);
  const LeaseId a = Wait({Segment(4)});
  const LeaseId b = Wait({Segment(4)});
  const LeaseId c = Wait({Segment(4)});
  GiveBack(*taken);
  EXPECT_EQ(Serve(), (std::vector<LeaseId>{a, b}));
  EXPECT_EQ(host_->Waits()[0].lease, c);
  EXPECT_EQ(host_->Waits()[0].position, 0u);
}

TEST_F(HostTest, ThoseBehindAWaiterThatLeavesMayPass) {
  Make({Pool2M(kNode0, 40)});
  const auto held = Take(20);
  const LeaseId huge = Wait({Segment(40)});
  for (int i = 0; i < 2; ++i) GiveBack(*Take(20));  // as often as may be
  const LeaseId small = Wait({Segment(4)});
  EXPECT_TRUE(Serve().empty()) << "what is clean is kept for the huge one";
  EXPECT_TRUE(host_->CancelWait(huge));
  EXPECT_EQ(Serve(), std::vector<LeaseId>{small});
}

}  // namespace
}  // namespace hugepool
