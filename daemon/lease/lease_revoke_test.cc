// Leases whose memory an operator takes back.
#include <gtest/gtest.h>

#include <utility>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

class LeaseRevokeTest : public LeaseFixture {
 protected:
  LeaseRevokeTest() { session_ = Open(Who(1000)).id; }

  // Orders it; the answer comes to answer().
  void Revoke(LeaseId id, absl::Duration notice = absl::ZeroDuration()) {
    answer_.reset();
    manager_->Revoke(id, notice, [this](absl::StatusOr<Bytes> result) {
      EXPECT_FALSE(answer_.has_value()) << "answered twice";
      answer_ = std::move(result);
    });
  }
  absl::StatusCode Refused(LeaseId id) {
    Revoke(id);
    EXPECT_TRUE(answer_.has_value());
    return answer_.has_value() ? answer_->status().code()
                               : absl::StatusCode::kUnknown;
  }

  SessionId session_;
  std::optional<absl::StatusOr<Bytes>> answer_;
};

TEST_F(LeaseRevokeTest, TakesTheMemoryFromWhoeverHasIt) {
  const Lease lease = Hold(session_, Spec(4));
  sys::FakeHolder& holder = holders_[lease.id][0];
  sys::FakeHolder child = holder.Fork();
  ASSERT_EQ(holder.Write(0, 0xA5), sys::FakeAccess::kOk);
  Revoke(lease.id);
  EXPECT_FALSE(answer_.has_value());  // a steward has to do it
  Settle();
  ASSERT_TRUE(answer_.has_value());
  ASSERT_TRUE(answer_->ok()) << answer_->status();
  EXPECT_EQ(**answer_, Pages(4));
  EXPECT_EQ(holder.Write(0, 1), sys::FakeAccess::kSigbusPastEnd);
  EXPECT_EQ(child.Read(3), std::nullopt);
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  EXPECT_EQ(Charged(Who(1000)), Bytes(0));
  EXPECT_EQ(Clean(), PageCount(16));  // refilled while both still map it
  EXPECT_EQ(Told(LeaseNews::Kind::kRevoked), 1);
  EXPECT_EQ(Told(LeaseNews::Kind::kGone), 1);
}

TEST_F(LeaseRevokeTest, LeavesOtherLeasesAlone) {
  const Lease other = Hold(session_, Spec(4));
  const Lease lease = Hold(session_, Spec(4));
  ASSERT_EQ(holders_[other.id][0].Write(1, 0x77), sys::FakeAccess::kOk);
  Revoke(lease.id);
  Settle();
  EXPECT_EQ(holders_[other.id][0].Read(1), 0x77);
  EXPECT_EQ(PhaseOf(other.id), LeasePhase::kHeld);
}

TEST_F(LeaseRevokeTest, TheHolderHasTimeToGiveItBackByItself) {
  const Lease lease = Hold(session_, Spec(4));
  Revoke(lease.id, absl::Seconds(5));
  ASSERT_EQ(sender_.notices.size(), 1u);
  EXPECT_EQ(sender_.notices[0].session, session_);
  EXPECT_EQ(sender_.notices[0].lease, lease.id);
  EXPECT_EQ(sender_.notices[0].within, absl::Seconds(5));
  Advance(absl::Milliseconds(4999));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  EXPECT_EQ(holders_[lease.id][0].Write(0, 1), sys::FakeAccess::kOk);
  Drop(lease.id);
  ASSERT_TRUE(manager_->Release(Who(1000), lease.id, "").ok());
  Settle();
  ASSERT_TRUE(answer_.has_value() && answer_->ok());
  EXPECT_EQ(**answer_, Pages(4));
  EXPECT_EQ(Told(LeaseNews::Kind::kReleased), 1);
  Advance(absl::Seconds(1));  // the order finds nothing to do any more
  EXPECT_EQ(Told(LeaseNews::Kind::kRevoked), 0);
}

TEST_F(LeaseRevokeTest, TheNoticeRunsOut) {
  const Lease lease = Hold(session_, Spec(1));
  Revoke(lease.id, absl::Seconds(5));
  Advance(absl::Seconds(5));
  EXPECT_EQ(holders_[lease.id][0].Read(0), std::nullopt);
  ASSERT_TRUE(answer_.has_value() && answer_->ok());
}

// What is kept after a release is what operators revoke most (T2).
TEST_F(LeaseRevokeTest, WhatIsKeptAfterItsEndIsTakenToo) {
  const Lease lease = Hold(session_, Spec(4));
  ASSERT_TRUE(manager_->Release(Who(1000), lease.id, "").ok());
  Settle();
  ASSERT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  Revoke(lease.id);
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  EXPECT_EQ(holders_[lease.id][0].Read(0), std::nullopt);
  EXPECT_EQ(Clean(), PageCount(16));
  ASSERT_TRUE(answer_.has_value() && answer_->ok());
}

TEST_F(LeaseRevokeTest, EveryLifetimeCanBeRevoked) {
  AcquireSpec memory = Spec(1);
  memory.lifetime = Lifetime::kMemory;
  for (const AcquireSpec& spec : {Spec(1), memory, Named(1, "buffers")}) {
    const Lease lease = Hold(session_, spec);
    Revoke(lease.id);
    Settle();
    EXPECT_TRUE(answer_.has_value() && answer_->ok());
    EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  }
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseRevokeTest, APrivateLeaseIsNotReusedInPlace) {
  const Identity who = Who(1000, "reuse");
  const SessionId session = Open(who).id;
  AcquireSpec spec = Spec(4);
  spec.is_private = true;
  const Lease lease = Hold(session, spec);
  Revoke(lease.id);
  Settle();
  EXPECT_EQ(host_->pools()[0]->Snapshot().cleared, 0u);
  EXPECT_EQ(host_->pools()[0]->Snapshot().retired, 1u);
}

TEST_F(LeaseRevokeTest, TwoOrdersAreBothAnswered) {
  const Lease lease = Hold(session_, Spec(1));
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    manager_->Revoke(lease.id, absl::Seconds(i),
                     [&answers](absl::StatusOr<Bytes> result) {
                       EXPECT_TRUE(result.ok()) << result.status();
                       ++answers;
                     });
  }
  Advance(absl::Seconds(2));
  EXPECT_EQ(answers, 2);
}

TEST_F(LeaseRevokeTest, WhatCannotBeRevokedStaysAsItIs) {
  EXPECT_EQ(Refused(LeaseId(77)), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(answer_->status()), RefusalReason::kLeaseGone);

  AcquireSpec spec = Spec(1);
  spec.sealed = true;
  const Lease sealed = Hold(session_, spec);
  EXPECT_EQ(Refused(sealed.id), absl::StatusCode::kFailedPrecondition);
  Advance(absl::Seconds(1));
  EXPECT_EQ(PhaseOf(sealed.id), LeasePhase::kHeld);
  EXPECT_EQ(holders_[sealed.id][0].Write(0, 1), sys::FakeAccess::kOk);

  // One that waits has nothing that could be taken.
  spec = Spec(16);
  spec.max_wait = absl::Seconds(10);
  ASSERT_FALSE(Acquire(session_, spec).has_value());
  EXPECT_EQ(Refused(LeaseId(sealed.id.value() + 1)),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(sender_.notices.empty());
  manager_->CancelAllWaits();
}

TEST_F(LeaseRevokeTest, AGrantOnItsWayIsTakenAsWell) {
  auto answer = Acquire(session_, Spec(4));
  ASSERT_TRUE(answer.has_value() && answer->ok());
  const Lease lease = (*answer)->lease;
  Receive();
  Revoke(lease.id);
  Settle();
  EXPECT_EQ(Ack(session_, lease).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(holders_[lease.id][0].Read(0), std::nullopt);
  EXPECT_EQ(Clean(), PageCount(16));
}

// The kernel refuses to take it: its holders are waited for, as ever.
TEST_F(LeaseRevokeTest, AFailureEndsTheLeaseAndWaits) {
  const Lease lease = Hold(session_, Spec(1));
  kernel_.FailNext(sys::FakeKernel::Op::kGiveBack, EIO);
  Revoke(lease.id);
  Settle();
  EXPECT_FALSE(answer_.has_value());
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  Drop(lease.id);
  Settle();
  EXPECT_TRUE(answer_.has_value() && answer_->ok());
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseRevokeTest, EndForKillTakesWhatCanBeTaken) {
  AcquireSpec spec = Spec(1);
  spec.sealed = true;
  const Lease sealed = Hold(session_, spec);
  const Lease plain = Hold(session_, Spec(1));
  EXPECT_TRUE(manager_->EndForKill(sealed.id).ok());
  EXPECT_TRUE(manager_->EndForKill(plain.id).ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->EndForKill(LeaseId(77))));
  Settle();
  EXPECT_EQ(PhaseOf(plain.id), std::nullopt);
  EXPECT_EQ(PhaseOf(sealed.id), LeasePhase::kReturning);
  EXPECT_EQ(holders_[sealed.id][0].Write(0, 1), sys::FakeAccess::kOk);
  Drop(sealed.id);  // killed
  Settle();
  EXPECT_EQ(PhaseOf(sealed.id), std::nullopt);
}

}  // namespace
}  // namespace hugepool
