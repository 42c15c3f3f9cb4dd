#include <gtest/gtest.h>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using enum RefusalReason;

class LeaseReturnTest : public LeaseFixture {
 protected:
  bool RetiredOnly() const {
    const PoolSnapshot s = host_->pools()[0]->Snapshot();
    return s.retired > 0 && s.cleared == 0;
  }
  const Identity who_ = Who(1000);
  LeaseManager::SessionInfo session_ = Open(who_);
};

TEST_F(LeaseReturnTest, ReleaseSendsTheMemoryBack) {
  const Lease lease = Hold(session_.id, Spec(5));
  Drop(lease.id);
  EXPECT_EQ(*manager_->Release(who_, lease.id, ""), Pages(5));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  EXPECT_EQ(*manager_->Release(who_, lease.id, ""), Bytes(0)) << "once";
  Settle();
  EXPECT_EQ(*manager_->Release(who_, lease.id, ""), Bytes(0))
      << "its end is remembered";
  EXPECT_EQ(ReasonOf(manager_->Release(Who(1001), lease.id, "").status()),
            kLeaseGone)
      << "but it is nobody else's business";
  EXPECT_EQ(Charged(who_), Bytes(0));
  EXPECT_EQ(Clean(), PageCount(16));
  EXPECT_EQ(Told(LeaseNews::Kind::kReleased), 1);
  EXPECT_EQ(Told(LeaseNews::Kind::kGone), 1);
  EXPECT_TRUE(RetiredOnly());
}

TEST_F(LeaseReturnTest, OthersCannotRelease) {
  const Lease lease = Hold(session_.id, Spec(4));
  EXPECT_EQ(ReasonOf(manager_->Release(Who(1001), lease.id, "").status()),
            kLeaseGone)
      << "another domain does not even see it";
  Identity neighbour = Who(1001);
  neighbour.domain = who_.domain;
  EXPECT_EQ(ReasonOf(manager_->Release(neighbour, lease.id, "").status()),
            kNotAllowed);
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  EXPECT_TRUE(manager_->Release(Admin(), lease.id, "").ok());
  Drop(lease.id);
  Settle();
}

TEST_F(LeaseReturnTest, ANamedLeaseIsItsDomains) {
  const Lease lease = Hold(session_.id, Named(4, "pg"));
  Identity neighbour = Who(1001);
  EXPECT_EQ(ReasonOf(manager_->Release(neighbour, LeaseId(), "pg").status()),
            kLeaseGone);
  neighbour.domain = who_.domain;
  EXPECT_EQ(*manager_->Release(neighbour, LeaseId(), "pg"), Pages(4));
  EXPECT_EQ(ReasonOf(manager_->Release(who_, LeaseId(), "pg").status()),
            kLeaseGone)
      << "the name is free at once";
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  Drop(lease.id);
  Settle();
}

TEST_F(LeaseReturnTest, AnUnacknowledgedLeaseCanBeReleased) {
  const Lease lease = (*Acquire(session_.id, Spec(4)))->lease;
  EXPECT_EQ(*manager_->Release(who_, lease.id, ""), Pages(4));
  EXPECT_EQ(ReasonOf(Ack(session_.id, lease)), kLeaseGone);
  sender_.sent.clear();
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
}

TEST_F(LeaseReturnTest, AReleaseDuringTheSendingWaitsForIt) {
  sender_.on_send = [this] {
    sender_.on_send = nullptr;
    const LeaseId id = sender_.sent.back().second.lease;
    EXPECT_EQ(*manager_->Release(who_, id, ""), Pages(4));
    EXPECT_EQ(PhaseOf(id), LeasePhase::kGranted) << "the Granter has its files";
  };
  const auto answer = Acquire(session_.id, Spec(4));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kUnavailable);
  sender_.sent.clear();
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(Clean(), PageCount(16));
}

// --- In place ---------------------------------------------------------------------

TEST_F(LeaseReturnTest, PrivateMemoryOfAReusingDomainIsClearedInPlace) {
  const Identity who = Who(1003, "reuse");
  const auto session = Open(who);
  AcquireSpec spec = Spec(4);
  spec.is_private = true;
  const Lease lease = Hold(session.id, spec);
  sys::FakeHolder& holder = holders_.at(lease.id)[0];
  const sys::InodeId inode = holder.inode();
  for (uint64_t p = 0; p < 4; ++p) holder.Write(p, 0xA5);
  Drop(lease.id);
  EXPECT_TRUE(manager_->Release(who, lease.id, "").ok());
  Settle();
  EXPECT_EQ(host_->pools()[0]->Snapshot().cleared, 1u);
  const Lease again = Hold(session.id, Spec(4));
  ASSERT_EQ(holders_.at(again.id)[0].inode(), inode) << "the same memory";
  for (uint64_t p = 0; p < 4; ++p) {
    EXPECT_EQ(holders_.at(again.id)[0].Read(p), 0);
  }
}

// Attached to by several holders: not for reuse in place.
TEST_F(LeaseReturnTest, AnAttachedLeaseIsRetired) {
  const Identity who = Who(1003, "reuse");
  const auto session = Open(who);
  AcquireSpec spec = Named(4, "shared");
  spec.is_private = true;
  const Lease lease = Hold(session.id, spec);
  ASSERT_TRUE(lease.in_place);
  const auto second = Open(who);
  const Result attached = Attach(second.id, lease.id);
  ASSERT_TRUE(attached.ok()) << attached.status();
  Receive();
  EXPECT_TRUE(Ack(second.id, attached->lease).ok());
  Settle();
  Drop(lease.id);
  EXPECT_TRUE(manager_->Release(who, lease.id, "").ok());
  Settle();
  EXPECT_TRUE(RetiredOnly());
  EXPECT_EQ(Clean(), PageCount(16));
}

// --- Lifetimes ----------------------------------------------------------------------

TEST_F(LeaseReturnTest, AMemoryLeaseEndsWithItsMemoryAndNotWithItsSession) {
  AcquireSpec spec = Spec(5);
  spec.lifetime = Lifetime::kMemory;
  const Lease lease = Hold(session_.id, spec);
  manager_->CloseSession(session_.id, session_.epoch, true);
  Advance(absl::Hours(1));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  EXPECT_EQ(Charged(who_), Pages(5));
  auto& holders = holders_.at(lease.id);
  ASSERT_EQ(holders.size(), 2u);
  {
    sys::FakeHolder child = holders[0].Fork();
    holders.erase(holders.begin());
    Settle();
    EXPECT_EQ(Charged(who_), Pages(5)) << "a child has it";
  }
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  EXPECT_EQ(Charged(who_), Pages(1)) << "what is back is charged no more";
  Drop(lease.id);
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  EXPECT_EQ(Charged(who_), Bytes(0));
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseReturnTest, AMemoryLeaseClosedBeforeItsAcknowledgementIsSeen) {
  AcquireSpec spec = Spec(4);
  spec.lifetime = Lifetime::kMemory;
  const Lease lease = (*Acquire(session_.id, spec))->lease;
  sender_.sent.clear();
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kGranted);
  EXPECT_TRUE(Ack(session_.id, lease).ok());
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
}

// The steward has settled the probe, the executor has not read the news: a
// release in between must not find the extent gone and die of it.
TEST_F(LeaseReturnTest, AReleaseThatCrossesTheNewsOfTheEnd) {
  AcquireSpec spec = Spec(4);
  spec.lifetime = Lifetime::kMemory;
  for (int steps = 1; steps < 6; ++steps) {
    const Lease lease = Hold(session_.id, spec);
    spec.request_id += "x";
    Drop(lease.id);
    watch_.Deliver();
    for (int i = 0; i < steps; ++i) (void)stewards_->Step();
    EXPECT_EQ(*manager_->Release(who_, lease.id, ""), Pages(4));
    Settle();
    EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
    EXPECT_EQ(Charged(who_), Bytes(0));
    EXPECT_EQ(Clean(), PageCount(16));
  }
}

TEST_F(LeaseReturnTest, ALivingReopenableMemoryLeaseKeepsItsInode) {
  AcquireSpec spec = Spec(4);
  spec.lifetime = Lifetime::kMemory;
  spec.reopenable = true;
  const Lease lease = Hold(session_.id, spec);
  Advance(absl::Minutes(1));
  auto again = holders_.at(lease.id)[0].Reopen();
  ASSERT_TRUE(again.has_value());
  Drop(lease.id);
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld) << "it is open once more";
  EXPECT_TRUE(manager_->Release(who_, lease.id, "").ok());
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  EXPECT_FALSE(again->Reopen().has_value()) << "taken back at the release";
  again.reset();
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
}

TEST_F(LeaseReturnTest, ANamedLeaseOutlivesItsSessionUntilItsTimeIsUp) {
  AcquireSpec spec = Named(4, "buffers");
  spec.time_to_live = absl::Hours(2);
  const Lease lease = Hold(session_.id, spec);
  EXPECT_EQ(lease.expires, lease.created + absl::Hours(2));
  manager_->CloseSession(session_.id, session_.epoch, true);
  Drop(lease.id);
  Advance(absl::Hours(2) - absl::Seconds(1));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld) << "though nobody has it";
  Advance(absl::Seconds(1));
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseReturnTest, ADamagedExtentIsReplacedAndTheLeaseEnds) {
  const Lease lease = Hold(session_.id, Spec(4));
  EXPECT_TRUE(holders_.at(lease.id)[0].Punch(1));
  Drop(lease.id);
  EXPECT_TRUE(manager_->Release(who_, lease.id, "").ok());
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  EXPECT_EQ(Clean(), PageCount(16));
}

}  // namespace
}  // namespace hugepool
