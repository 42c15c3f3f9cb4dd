#include <gtest/gtest.h>

#include <set>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using enum RefusalReason;

class SessionsTest : public LeaseFixture {
 protected:
  const Identity who_ = Who(1000);
  LeaseManager::SessionInfo session_ = Open(who_);
};

TEST_F(SessionsTest, SecretsAreLongAndDifferent) {
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) {
    const auto s = Open(who_);
    EXPECT_EQ(s.secret.size(), 16u);
    EXPECT_TRUE(secrets.insert(s.secret).second);
    EXPECT_FALSE(s.resumed);
  }
}

TEST_F(SessionsTest, ASecretIsGoodForItsUidAndDomainOnly) {
  EXPECT_EQ(*manager_->Authenticate(session_.secret, who_), session_.id);
  EXPECT_EQ(ReasonOf(manager_->Authenticate("", who_).status()), kNoFdChannel);
  EXPECT_EQ(ReasonOf(manager_->Authenticate("x", who_).status()), kNoFdChannel);
  EXPECT_EQ(ReasonOf(manager_->Authenticate(session_.secret, Who(1001)).status()),
            kNotAllowed);
  EXPECT_EQ(
      ReasonOf(
          manager_->Authenticate(session_.secret, Who(1000, "other")).status()),
      kNotAllowed);
}

TEST_F(SessionsTest, ThereIsALimit) {
  LeaseManager::Options options;
  options.max_sessions = 2;
  Make(options);
  const auto a = Open(who_);
  (void)Open(who_);
  EXPECT_EQ(manager_->OpenSession(who_, "").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(manager_->OpenSession(who_, a.secret).ok()) << "no new one";
  manager_->CloseSession(a.id, 2, true);
  EXPECT_TRUE(manager_->OpenSession(who_, "").ok());
}

TEST_F(SessionsTest, WithinTheGraceTheLeasesAreTakenUpAgain) {
  const Lease lease = Hold(session_.id, Spec(4));
  manager_->CloseSession(session_.id, session_.epoch, false);
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kOrphaned);
  EXPECT_EQ(ReasonOf(Acquire(session_.id, Spec(1))->status()), kNoFdChannel);
  Advance(absl::Milliseconds(9999));
  const auto again = Open(who_, session_.secret);
  EXPECT_TRUE(again.resumed);
  EXPECT_EQ(again.id, session_.id);
  EXPECT_EQ(again.secret, session_.secret);
  EXPECT_EQ(again.epoch, session_.epoch + 1);
  EXPECT_EQ(again.leases, std::vector<LeaseId>{lease.id});
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  Advance(absl::Hours(1));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld) << "the grace is over";
  EXPECT_EQ(Told(LeaseNews::Kind::kOrphaned), 1);
  EXPECT_EQ(Told(LeaseNews::Kind::kResumed), 1);
}

TEST_F(SessionsTest, AfterTheGraceTheyEnd) {
  const Lease lease = Hold(session_.id, Spec(4));
  manager_->CloseSession(session_.id, session_.epoch, false);
  Advance(absl::Seconds(10));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  EXPECT_EQ(Charged(who_), Pages(4)) << "it is mapped still";
  const auto again = Open(who_, session_.secret);
  EXPECT_FALSE(again.resumed);
  EXPECT_NE(again.secret, session_.secret);
  Drop(lease.id);
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
}

TEST_F(SessionsTest, TheGraceOfAnEarlierLossDoesNotEndALaterOne) {
  const Lease lease = Hold(session_.id, Spec(4));
  manager_->CloseSession(session_.id, 1, false);
  Advance(absl::Seconds(6));
  const auto again = Open(who_, session_.secret);
  manager_->CloseSession(again.id, again.epoch, false);
  Advance(absl::Seconds(6));  // 12 s after the first loss, 6 s after the second
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kOrphaned);
  Advance(absl::Seconds(4));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
}

TEST_F(SessionsTest, OthersCannotTakeThemUp) {
  const Lease lease = Hold(session_.id, Spec(4));
  manager_->CloseSession(session_.id, session_.epoch, false);
  const auto thief = Open(Who(1001), session_.secret);
  EXPECT_FALSE(thief.resumed);
  EXPECT_NE(thief.secret, session_.secret);
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kOrphaned);
}

TEST_F(SessionsTest, TheLateEndOfAnOldConnectionIsIgnored) {
  const Lease lease = Hold(session_.id, Spec(4));
  const auto again = Open(who_, session_.secret);  // before the loss was seen
  manager_->CloseSession(session_.id, session_.epoch, true);
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  EXPECT_TRUE(Acquire(again.id, Spec(1))->ok());
}

TEST_F(SessionsTest, ADeadProcessHasNoGrace) {
  const Lease lease = Hold(session_.id, Spec(4));
  Drop(lease.id);
  manager_->CloseSession(session_.id, session_.epoch, true);
  EXPECT_EQ(manager_->Count().sessions, 0u);
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(SessionsTest, ASessionWithNothingToResumeEndsAtOnce) {
  manager_->CloseSession(session_.id, session_.epoch, false);
  EXPECT_EQ(manager_->Count().sessions, 0u);
  EXPECT_FALSE(Open(who_, session_.secret).resumed);
}

TEST_F(SessionsTest, WhatWasNotAcknowledgedIsLostWithTheConnection) {
  const Lease held = Hold(session_.id, Spec(4));
  const Lease sent = (*Acquire(session_.id, Spec(4)))->lease;
  manager_->CloseSession(session_.id, session_.epoch, false);
  EXPECT_EQ(PhaseOf(held.id), LeasePhase::kOrphaned);
  EXPECT_EQ(PhaseOf(sent.id), LeasePhase::kReturning);
  const auto again = Open(who_, session_.secret);
  EXPECT_EQ(again.leases, std::vector<LeaseId>{held.id});
  EXPECT_EQ(ReasonOf(Ack(again.id, sent)), kLeaseGone);
}

TEST_F(SessionsTest, AConnectionLostDuringTheSendingRollsBack) {
  sender_.on_send = [this] {
    sender_.on_send = nullptr;
    manager_->CloseSession(session_.id, session_.epoch, true);
  };
  EXPECT_EQ(Acquire(session_.id, Spec(4))->status().code(),
            absl::StatusCode::kUnavailable);
  sender_.sent.clear();
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  EXPECT_EQ(Clean(), PageCount(16));
}

// --- Attaching ------------------------------------------------------------------

class AttachTest : public SessionsTest {
 protected:
  const Lease lease_ = Hold(session_.id, Named(5, "buffers"));
  LeaseManager::SessionInfo second_ = Open(who_);
};

TEST_F(AttachTest, GivesTheSameMemoryThroughOtherDescriptions) {
  holders_.at(lease_.id)[0].Write(0, 0x5A);
  const Result attached = Attach(second_.id, LeaseId(), "buffers");
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->lease.id, lease_.id);
  EXPECT_EQ(attached->lease.generation, 2u);
  EXPECT_EQ(sender_.sent.back().first, second_.id);
  Receive();
  auto& holders = holders_.at(lease_.id);
  ASSERT_EQ(holders.size(), 4u);
  EXPECT_EQ(holders[2].Read(0), 0x5A);
  EXPECT_EQ(kernel_.HolderCount(holders[0].inode()), 2u);
  EXPECT_EQ(ReasonOf(Ack(session_.id, attached->lease)), kLeaseGone);
  EXPECT_TRUE(Ack(second_.id, attached->lease).ok());
  EXPECT_EQ(Charged(who_), Pages(5)) << "charged once";
}

TEST_F(AttachTest, OnlyToANamedAcknowledgedLeaseOfTheDomain) {
  const Lease other = Hold(session_.id, Spec(1));
  EXPECT_EQ(Attach(second_.id, other.id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(Attach(second_.id, LeaseId(), "nothing").status()),
            kLeaseGone);
  const auto foreign = Open(Who(1001));
  EXPECT_EQ(ReasonOf(Attach(foreign.id, lease_.id).status()), kLeaseGone);
  EXPECT_EQ(ReasonOf(Attach(foreign.id, LeaseId(), "buffers").status()),
            kLeaseGone);
  EXPECT_EQ(ReasonOf(Attach(SessionId(99), lease_.id).status()), kNoFdChannel);
  const Lease sent = (*Acquire(session_.id, Named(1, "new")))->lease;
  EXPECT_EQ(Attach(second_.id, sent.id).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(AttachTest, AnUnacknowledgedAttachmentEndsAndTheLeaseLives) {
  const Result attached = Attach(second_.id, lease_.id);
  ASSERT_TRUE(attached.ok());
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 2u);
  sender_.sent.clear();
  Advance(absl::Seconds(5));
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  EXPECT_EQ(PhaseOf(lease_.id), LeasePhase::kHeld);
  const Result again = Attach(second_.id, lease_.id);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(
      manager_->Refuse(second_.id, lease_.id, again->lease.generation, "no")
          .ok());
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  EXPECT_EQ(PhaseOf(lease_.id), LeasePhase::kHeld);
}

// The lease is gone before the older of two attachments is given up.
TEST_F(AttachTest, NoDescriptorStaysCountedWhenTheLeaseEndsFirst) {
  ASSERT_TRUE(Attach(second_.id, lease_.id).ok());
  ASSERT_TRUE(Attach(second_.id, lease_.id).ok());
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 4u);
  EXPECT_TRUE(manager_->Release(who_, lease_.id, "").ok());
  sender_.sent.clear();
  Drop(lease_.id);
  Settle();
  EXPECT_EQ(PhaseOf(lease_.id), std::nullopt);
  Advance(absl::Seconds(5));
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
}

TEST_F(AttachTest, AFailedAttachmentHarmsNothing) {
  sender_.fail = absl::UnavailableError("no connection");
  EXPECT_EQ(Attach(second_.id, lease_.id).status().code(),
            absl::StatusCode::kUnavailable);
  sender_.fail = absl::OkStatus();
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  EXPECT_EQ(PhaseOf(lease_.id), LeasePhase::kHeld);
  EXPECT_TRUE(Attach(second_.id, lease_.id).ok());
}

TEST_F(AttachTest, ANameIsTakenUntilItsLeaseEnds) {
  EXPECT_EQ(ReasonOf(Acquire(second_.id, Named(1, "buffers"))->status()),
            kNameTaken);
  EXPECT_TRUE(Acquire(Open(Who(1001)).id, Named(1, "buffers"))->ok())
      << "names are the domain's own";
  EXPECT_TRUE(manager_->Release(who_, lease_.id, "").ok());
  EXPECT_TRUE(Acquire(second_.id, Named(1, "buffers"))->ok());
}

TEST_F(AttachTest, AttachingAgainAfterEverybodyLeft) {
  holders_.at(lease_.id)[0].Write(0, 0x77);
  Drop(lease_.id);
  manager_->CloseSession(session_.id, session_.epoch, true);
  Advance(absl::Hours(1));
  const Result attached = Attach(second_.id, LeaseId(), "buffers");
  ASSERT_TRUE(attached.ok());
  Receive();
  EXPECT_EQ(holders_.at(lease_.id)[0].Read(0), 0x77) << "kept its bytes";
}

}  // namespace
}  // namespace hugepool
