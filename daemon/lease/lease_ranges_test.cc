// Parts of leases: given up by their holders, taken where the pool runs short.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using Ranges = std::vector<ReleaseRange>;

class LeaseRangesTest : public LeaseFixture {
 protected:
  LeaseRangesTest() { session_ = Open(Who(1000)).id; }

  static ReleaseRange Range(uint64_t first, uint64_t count,
                            uint32_t segment = 0) {
    return {segment, Pages(first), Pages(count)};
  }
  absl::StatusOr<Bytes> Release(const Lease& lease, const Ranges& ranges,
                                uid_t uid = 1000) {
    auto released = manager_->ReleaseRanges(Who(uid), lease.id, "", ranges);
    if (released.ok()) {
      for (const ReleaseRange& r : ranges) GiveUp(lease, r);
    }
    return released;
  }
  absl::StatusCode Code(const Lease& lease, const Ranges& ranges) {
    return Release(lease, ranges).status().code();
  }
  // The model is told what the daemon may take.
  void GiveUp(const Lease& lease, const ReleaseRange& range) {
    for (size_t i = 0; i < lease.extents.size(); ++i) {
      const TakenExtent& e = lease.extents[i];
      if (e.segment != range.segment) continue;
      for (Bytes at = range.offset; at < range.offset + range.size;
           at += Pages(1)) {
        if (at < e.offset || at >= e.offset + e.size) continue;
        holders_[lease.id][i].GiveUp(k2M.Floor(at - e.offset).value());
      }
    }
  }
  void Fill(const Lease& lease) {
    uint8_t tag = 1;
    for (size_t i = 0; i < lease.extents.size(); ++i) {
      const uint64_t pages = k2M.Floor(lease.extents[i].size).value();
      for (uint64_t p = 0; p < pages; ++p) {
        ASSERT_EQ(holders_[lease.id][i].Write(p, tag++),
                  sys::FakeAccess::kOk);
      }
    }
  }
  // Whether page `p` of the lease reads what Fill() wrote.
  bool IsFilled(const Lease& lease, uint64_t p) {
    uint64_t at = p;
    for (size_t i = 0; i < lease.extents.size(); ++i) {
      const uint64_t pages = k2M.Floor(lease.extents[i].size).value();
      if (at < pages) return holders_[lease.id][i].Read(at) == p + 1;
      at -= pages;
    }
    return false;
  }
  PoolSnapshot Pool() const { return host_->pools()[0]->Snapshot(); }
  // The size of a lease, as it is charged.
  Bytes SizeOf(const Lease& lease) {
    return manager_->Get(Admin(), lease.id, "")->size();
  }

  SessionId session_;
};

TEST_F(LeaseRangesTest, TheyAreTakenForThoseWhoWaitAndTheRestStays) {
  const Lease lease = Hold(session_, Spec(16));  // all there is
  Fill(lease);
  ASSERT_EQ(*Release(lease, {Range(1, 2), Range(5, 3)}), Pages(5));
  Settle();
  AcquireSpec spec = Spec(4);
  spec.max_wait = absl::Seconds(10);
  Acquire(session_, spec);
  Settle();
  ASSERT_TRUE(answers_[spec.request_id].has_value());
  ASSERT_TRUE(answers_[spec.request_id]->ok());
  Receive();
  for (uint64_t p = 0; p < 16; ++p) {
    const bool released = p == 1 || p == 2 || (p >= 5 && p < 8);
    EXPECT_TRUE(released || IsFilled(lease, p)) << p;
  }
  EXPECT_EQ(SizeOf(lease), Pages(11));
  EXPECT_EQ(Charged(Who(1000)), Pages(15));
  EXPECT_EQ(Pool().gone, PageCount(5));
  EXPECT_EQ(Pool().split, Pages(5));
  ASSERT_TRUE(Ack(session_, (*answers_[spec.request_id])->lease).ok());
  // It comes back as it is, and the pool is whole again.
  ASSERT_TRUE(manager_->Release(Who(1000), lease.id, "").ok());
  Drop(lease.id);
  Settle();
  EXPECT_FALSE(PhaseOf(lease.id).has_value());
  EXPECT_EQ(Pool().gone, PageCount(0));
  EXPECT_EQ(Clean(), PageCount(12));
  EXPECT_EQ(Charged(Who(1000)), Pages(4));
}

TEST_F(LeaseRangesTest, AboveTheWatermarkNothingIsTaken) {
  const Lease lease = Hold(session_, Spec(8));  // the other half is clean
  Fill(lease);
  ASSERT_TRUE(Release(lease, {Range(0, 4)}).ok());
  Settle();
  EXPECT_EQ(Pool().gone, PageCount(0));
  EXPECT_EQ(deferred_->stats().length, 1u);
  EXPECT_EQ(SizeOf(lease), Pages(8)) << "charged until it is taken";
  for (uint64_t p = 0; p < 8; ++p) EXPECT_TRUE(IsFilled(lease, p)) << p;
}

TEST_F(LeaseRangesTest, AfterAMinuteTheyAreTakenAllTheSame) {
  const Lease lease = Hold(session_, Spec(8));
  Fill(lease);
  ASSERT_TRUE(Release(lease, {Range(0, 3)}).ok());
  Advance(absl::Seconds(59));
  EXPECT_EQ(SizeOf(lease), Pages(8));
  Advance(absl::Seconds(1));
  EXPECT_EQ(SizeOf(lease), Pages(5));
  EXPECT_EQ(Charged(Who(1000)), Pages(5));
  EXPECT_EQ(deferred_->stats().length, 0u);
  EXPECT_EQ(Clean(), PageCount(11)) << "built anew";
  for (uint64_t p = 3; p < 8; ++p) EXPECT_TRUE(IsFilled(lease, p)) << p;
}

TEST_F(LeaseRangesTest, ALeaseThatComesBackWholeLeavesTheQueueUnsplit) {
  const Lease lease = Hold(session_, Spec(8));
  ASSERT_TRUE(Release(lease, {Range(0, 2), Range(4, 1)}).ok());
  EXPECT_EQ(deferred_->stats().length, 2u) << "an extent each";
  ASSERT_TRUE(manager_->Release(Who(1000), lease.id, "").ok());
  EXPECT_EQ(deferred_->stats().length, 0u);
  EXPECT_EQ(deferred_->stats().removed, 2u);
  Drop(lease.id);
  Settle();
  EXPECT_EQ(Pool().split, Bytes(0));
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseRangesTest, ManyReleasesOfOneExtentTakeTheLockOnce) {
  const Lease lease = Hold(session_, Spec(4));
  for (uint64_t p = 0; p < 4; ++p) {
    ASSERT_TRUE(Release(lease, {Range(p, 1)}).ok());
  }
  EXPECT_EQ(deferred_->stats().adds, 4u);
  EXPECT_EQ(deferred_->stats().early_exits, 3u);
  EXPECT_EQ(deferred_->stats().add_locks, 1u);
}

TEST_F(LeaseRangesTest, BadRangesAreRefusedAndChangeNothing) {
  AcquireSpec two = Spec(6);
  two.segments.push_back(Spec(2).segments[0]);
  const Lease lease = Hold(session_, two);
  const ReleaseRange good = Range(0, 1);
  for (const Ranges& bad : {
           Ranges{good, Range(5, 2)},                       // past the end
           Ranges{good, Range(6, 1)},
           Ranges{good, Range(0, 1, 2)},                    // no such segment
           Ranges{good, {0, Bytes(4096), Pages(1)}},        // unaligned
           Ranges{good, {0, Pages(1), Bytes(4096)}},
           Ranges{good, {0, Pages(1), Bytes(0)}},           // nothing
           Ranges{good, {0, Bytes(~uint64_t{0} << 21), Pages(2)}},
           Ranges{good, {0, Pages(1), Bytes(~uint64_t{0} << 21)}},
           Ranges{good, Range(3, 2), Range(4, 1)},          // overlap
           Ranges{good, good},
       }) {
    EXPECT_EQ(ReasonOf(Release(lease, bad).status()),
              RefusalReason::kBadRequest);
  }
  EXPECT_EQ(deferred_->stats().adds, 0u) << "not even the good one";
  ASSERT_TRUE(Release(lease, {Range(2, 3), Range(1, 1, 1)}).ok());
  EXPECT_EQ(Code(lease, {Range(0, 1), Range(4, 1)}),
            absl::StatusCode::kFailedPrecondition)
      << "released twice";
  ASSERT_EQ(*Release(lease, {Range(0, 1)}), Pages(1)) << "nothing had changed";
}

TEST_F(LeaseRangesTest, OnlyTheHolderOfAHeldLease) {
  Open(Who(1001));
  const Lease lease = Hold(session_, Spec(1));
  EXPECT_EQ(ReasonOf(Release(lease, {Range(0, 1)}, 1001).status()),
            RefusalReason::kLeaseGone)
      << "of another domain";
  Identity neighbour = Who(1002);
  neighbour.domain = Who(1000).domain;
  EXPECT_EQ(ReasonOf(manager_
                         ->ReleaseRanges(neighbour, lease.id, "", {Range(0, 1)})
                         .status()),
            RefusalReason::kNotAllowed);
  EXPECT_EQ(
      ReasonOf(manager_
                   ->ReleaseRanges(Who(1000), LeaseId(4711), "", {Range(0, 1)})
                   .status()),
      RefusalReason::kLeaseGone);
  ASSERT_TRUE(manager_->Release(Who(1000), lease.id, "").ok());
  EXPECT_EQ(ReasonOf(Release(lease, {Range(0, 1)}).status()),
            RefusalReason::kLeaseGone)
      << "ended";
  EXPECT_EQ(deferred_->stats().adds, 0u);
}

// The acknowledgement goes over the fd channel, a call may go over gRPC.
TEST_F(LeaseRangesTest, AReleaseMayOvertakeTheAcknowledgement) {
  const Lease lease = (*Acquire(session_, Spec(16)))->lease;
  Receive();
  Fill(lease);
  ASSERT_TRUE(Release(lease, {Range(0, 4)}).ok());
  AcquireSpec spec = Spec(4);
  spec.max_wait = absl::Seconds(10);
  Acquire(session_, spec);
  Settle();
  EXPECT_EQ(Pool().split, Bytes(0)) << "nobody has said that it is there";
  ASSERT_TRUE(Ack(session_, lease).ok());
  Settle();
  ASSERT_TRUE(answers_[spec.request_id].has_value());
  EXPECT_TRUE(answers_[spec.request_id]->ok());
  Receive();
  for (uint64_t p = 4; p < 16; ++p) EXPECT_TRUE(IsFilled(lease, p)) << p;
}

TEST_F(LeaseRangesTest, AGrantThatIsRolledBackLeavesTheQueue) {
  const Lease lease = (*Acquire(session_, Spec(4)))->lease;
  Receive();
  ASSERT_TRUE(Release(lease, {Range(0, 1)}).ok());
  EXPECT_EQ(deferred_->stats().length, 1u);
  ASSERT_TRUE(
      manager_->Refuse(session_, lease.id, lease.generation, "no").ok());
  EXPECT_EQ(deferred_->stats().length, 0u);
  EXPECT_EQ(ReasonOf(Release(lease, {Range(1, 1)}).status()),
            RefusalReason::kLeaseGone);
  Drop(lease.id);
  Settle();
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseRangesTest, ANamedLeaseByItsName) {
  const Lease lease = Hold(session_, Named(4, "heap"));
  EXPECT_EQ(*manager_->ReleaseRanges(Who(1000), LeaseId(), "heap",
                                     {Range(3, 1)}),
            Pages(1));
  EXPECT_EQ(ReasonOf(manager_
                         ->ReleaseRanges(Who(1000), LeaseId(), "other",
                                         {Range(2, 1)})
                         .status()),
            RefusalReason::kLeaseGone);
}

TEST_F(LeaseRangesTest, APoolThatLetsGoCannotTakeParts) {
  PoolConfig c;
  c.node = kNode;
  c.target = c.high = PageCount(16);
  c.let_go = true;
  Host host({c}, {kNode}, table_.get(), Host::Limits{});
  Lease lease;
  lease.extents = {TakenExtent{.size = Pages(1), .node = kNode}};
  const LeaseParts parts(lease, host, [this](const class Pool&) {
    return deferred_.get();
  });
  LeaseParts::Queued queued;
  EXPECT_EQ(parts.Release({Range(0, 1)}, clock_.Now(), &queued).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// A release that began before its lease ended can come after the next lease has
// the same extent, cleared in place: it must not lose a page for that.
TEST_F(LeaseRangesTest, ALateReleaseDoesNothingToTheNextLeaseOfTheExtent) {
  const Identity reuse = Who(1003, "reuse");
  const SessionId session = Open(reuse).id;
  AcquireSpec spec = Spec(16);
  spec.is_private = true;
  const Lease before = Hold(session, spec);
  const LeaseParts late(before, *host_, [this](const class Pool&) {
    return deferred_.get();
  });
  ASSERT_TRUE(manager_->Release(reuse, before.id, "").ok());
  Drop(before.id);
  Settle();
  spec.request_id += "b";
  const Lease after = Hold(session, spec);
  ASSERT_EQ(after.extents[0].id, before.extents[0].id) << "reused in place";
  Fill(after);
  LeaseParts::Queued queued;
  ASSERT_TRUE(late.Release({Range(0, 16)}, clock_.Now(), &queued).ok());
  EXPECT_GT(deferred_->stats().length, 0u);
  Advance(absl::Minutes(2));
  EXPECT_EQ(deferred_->stats().length, 0u) << "dropped";
  EXPECT_EQ(Pool().split, Bytes(0));
  for (uint64_t p = 0; p < 16; ++p) EXPECT_TRUE(IsFilled(after, p)) << p;
}

// What a holder does to its memory by itself (T3, K4): noticed, and of use to
// others.
TEST_F(LeaseRangesTest, T3WhatAHolderPunchesIsNoticedAndGivenToOthers) {
  const Lease lease = Hold(session_, Spec(16));
  Fill(lease);
  for (uint64_t p = 0; p < 4; ++p) {
    ASSERT_TRUE(holders_[lease.id][0].Punch(p));
  }
  Settle();
  EXPECT_EQ(SizeOf(lease), Pages(12));
  EXPECT_EQ(Charged(Who(1000)), Pages(12));
  EXPECT_EQ(Clean(), PageCount(4));
  for (uint64_t p = 4; p < 16; ++p) EXPECT_TRUE(IsFilled(lease, p)) << p;
}

// What was given up and is touched again comes from the kernel, if it has any.
TEST_F(LeaseRangesTest, WhatIsTakenBackIsCountedAndCharged) {
  const Lease lease = Hold(session_, Spec(16));
  Fill(lease);
  ASSERT_TRUE(Release(lease, {Range(0, 2)}).ok());
  AcquireSpec other = Spec(2);
  other.max_wait = absl::Seconds(10);
  Acquire(session_, other);
  Settle();
  ASSERT_TRUE(answers_[other.request_id]->ok());
  Receive();
  EXPECT_EQ(Charged(Who(1000)), Pages(16));
  kernel_.AddPages(kNode, k2M, PageCount(4));  // beyond the pool's target
  ASSERT_TRUE(holders_[lease.id][0].Read(0).has_value());
  EXPECT_EQ(Charged(Who(1000)), Pages(16)) << "nothing tells";
  host_->pools()[0]->RecountShrunk();
  Settle();
  EXPECT_EQ(Charged(Who(1000)), Pages(17));
  EXPECT_EQ(Pool().regained, Pages(1));
  EXPECT_EQ(SizeOf(lease), Pages(15));
  EXPECT_EQ(Pool().charged, PageCount(17)) << "more than the target";
}

TEST_F(LeaseRangesTest, ACopyOfAPartlyReleasedLeaseHasZerosThere) {
  Make({}, 32);
  session_ = Open(Who(1000)).id;
  const Lease lease = Hold(session_, Spec(4));
  Fill(lease);
  ASSERT_TRUE(Release(lease, {Range(1, 1)}).ok());
  auto split = host_->pools()[0]->StartSplit(
      lease.extents[0].id, lease.id);
  ASSERT_TRUE(split.has_value());
  (void)host_->pools()[0]->Settle(*std::move(split), WorkOutcome::kDone, "",
                                  clock_.Now());
  AcquireSpec spec = Spec(4);
  spec.segments[0].copy = CopySource{lease.id, Bytes(0)};
  Acquire(session_, spec);
  Settle();
  ASSERT_TRUE(answers_[spec.request_id]->ok())
      << answers_[spec.request_id]->status();
  Receive();
}

}  // namespace
}  // namespace hugepool
