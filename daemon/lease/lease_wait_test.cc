// Waiting for memory: the part of lease_manager.cc between Acquire and grant.
#include <gtest/gtest.h>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using enum RefusalReason;

class LeaseWaitTest : public LeaseFixture {
 protected:
  AcquireSpec Waiting(uint64_t pages,
                      absl::Duration wait = absl::Seconds(10)) {
    AcquireSpec spec = Spec(pages);
    spec.max_wait = wait;
    return spec;
  }
  // Gives a lease back, its holder being gone.
  void GiveBack(const Identity& who, LeaseId lease) {
    Drop(lease);
    EXPECT_TRUE(manager_->Release(who, lease, "").ok());
    Settle();
  }
  bool Answered(const AcquireSpec& spec) {
    return answers_.at(spec.request_id).has_value();
  }
  absl::Status StatusOf(const AcquireSpec& spec) {
    return answers_.at(spec.request_id)->status();
  }

  const Identity who_ = Who(1000);
  LeaseManager::SessionInfo session_ = Open(who_);
};

TEST_F(LeaseWaitTest, WithoutMaxWaitAShortageIsTheAnswer) {
  Hold(session_.id, Spec(12));
  const auto answer = Acquire(session_.id, Spec(8));
  ASSERT_TRUE(answer.has_value());
  const auto refusal = RefusalOf(answer->status());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, kPoolShort);
  EXPECT_EQ(refusal->wanted, Pages(8));
  EXPECT_EQ(refusal->available, Pages(4));
}

TEST_F(LeaseWaitTest, AWaiterIsServedWhenMemoryComesBack) {
  const Lease held = Hold(session_.id, Spec(16));
  const AcquireSpec spec = Waiting(8);
  ASSERT_FALSE(Acquire(session_.id, spec).has_value());
  EXPECT_EQ(Told(WaitNews::Kind::kQueued), 1);
  Advance(absl::Seconds(3));
  const auto waits = manager_->Waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].request_id, spec.request_id);
  EXPECT_EQ(waits[0].wanted, Pages(8));
  EXPECT_EQ(waits[0].waited, absl::Seconds(3));
  EXPECT_EQ(ReasonOf(manager_->Get(who_, LeaseId(), "").status()), kLeaseGone);
  EXPECT_EQ(manager_->List(who_, LeaseId(), 10, std::nullopt).size(), 1u)
      << "what has no memory yet is no lease to see";
  GiveBack(who_, held.id);
  ASSERT_TRUE(Answered(spec));
  const Granted& granted = **answers_.at(spec.request_id);
  EXPECT_EQ(granted.waited, absl::Seconds(3));
  EXPECT_EQ(Charged(who_), Pages(8));
  EXPECT_EQ(Told(WaitNews::Kind::kServed), 1);
  Receive();
  EXPECT_TRUE(Ack(session_.id, granted.lease).ok());
  Advance(absl::Minutes(1));
  EXPECT_EQ(Told(WaitNews::Kind::kExpired), 0) << "its timer has no say now";
}

TEST_F(LeaseWaitTest, AWaitExpires) {
  Hold(session_.id, Spec(16));
  const AcquireSpec spec = Waiting(8);
  ASSERT_FALSE(Acquire(session_.id, spec).has_value());
  Advance(absl::Milliseconds(9999));
  EXPECT_FALSE(Answered(spec));
  Advance(absl::Milliseconds(1));
  ASSERT_TRUE(Answered(spec));
  EXPECT_EQ(StatusOf(spec).code(), absl::StatusCode::kDeadlineExceeded);
  const auto refusal = RefusalOf(StatusOf(spec));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, kWaitExpired);
  EXPECT_EQ(refusal->wanted, Pages(8));
  EXPECT_EQ(Told(WaitNews::Kind::kExpired), 1);
  EXPECT_TRUE(manager_->Waits().empty());
}

TEST_F(LeaseWaitTest, AnInfiniteWaitHasNoEnd) {
  const Lease held = Hold(session_.id, Spec(16));
  const AcquireSpec spec = Waiting(8, absl::InfiniteDuration());
  ASSERT_FALSE(Acquire(session_.id, spec).has_value());
  Advance(absl::Hours(24 * 365));
  EXPECT_FALSE(Answered(spec));
  GiveBack(who_, held.id);
  EXPECT_TRUE(Answered(spec));
}

TEST_F(LeaseWaitTest, ACancelledWaitIsAnsweredOnce) {
  Hold(session_.id, Spec(16));
  const AcquireSpec spec = Waiting(8);
  ASSERT_FALSE(Acquire(session_.id, spec).has_value());
  manager_->CancelAcquire(session_.id, "another");
  EXPECT_FALSE(Answered(spec));
  manager_->CancelAcquire(session_.id, spec.request_id);
  ASSERT_TRUE(Answered(spec));
  EXPECT_EQ(StatusOf(spec).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Told(WaitNews::Kind::kCancelled), 1);
  manager_->CancelAcquire(session_.id, spec.request_id);
  EXPECT_EQ(manager_->Count().leases, 1u);
}

TEST_F(LeaseWaitTest, CancellingAGrantedRequestDoesNothing) {
  const AcquireSpec spec = Spec(4);
  const Lease lease = (*Acquire(session_.id, spec))->lease;
  manager_->CancelAcquire(session_.id, spec.request_id);
  EXPECT_TRUE(Ack(session_.id, lease).ok());
}

TEST_F(LeaseWaitTest, AtTheEndOfTheDaemonAllWaitsAreAnswered) {
  Hold(session_.id, Spec(16));
  const AcquireSpec a = Waiting(8);
  const AcquireSpec b = Waiting(2);
  (void)Acquire(session_.id, a);
  (void)Acquire(session_.id, b);
  host_->SetDraining(true);
  manager_->CancelAllWaits();
  EXPECT_EQ(ReasonOf(StatusOf(a)), kDraining);
  EXPECT_EQ(ReasonOf(StatusOf(b)), kDraining);
  EXPECT_EQ(ReasonOf(Acquire(session_.id, Spec(1))->status()), kDraining);
}

TEST_F(LeaseWaitTest, TheEndOfTheSessionEndsItsWaits) {
  Hold(Open(Who(1001)).id, Spec(16));
  const AcquireSpec spec = Waiting(8);
  (void)Acquire(session_.id, spec);
  manager_->CloseSession(session_.id, session_.epoch, false);
  ASSERT_TRUE(Answered(spec));
  EXPECT_EQ(StatusOf(spec).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(manager_->Count().leases, 1u);
  EXPECT_EQ(manager_->Count().sessions, 1u);
}

// The one in front keeps what is clean for itself; when it goes, however it
// goes, the next is served at once, though no memory comes back.
class LeavingTest : public LeaseWaitTest,
                    public testing::WithParamInterface<const char*> {};

TEST_P(LeavingTest, LetsTheNextOnePass) {
  const std::string how = GetParam();
  Make({}, 40);
  const auto session = Open(who_);
  const auto front = Open(Who(1001));
  const Lease held = Hold(session.id, Spec(20));
  const AcquireSpec huge = Waiting(40);
  ASSERT_FALSE(Acquire(front.id, huge).has_value());
  for (int i = 0; i < 2; ++i) {  // passed as often as may be
    GiveBack(who_, Hold(session.id, Spec(20)).id);
  }
  const AcquireSpec small = Waiting(4, absl::Minutes(5));
  ASSERT_FALSE(Acquire(session.id, small).has_value());
  if (how == "cancel") {
    manager_->CancelAcquire(front.id, huge.request_id);
  } else if (how == "expiry") {
    clock_.Advance(absl::Seconds(10));
    executor_.RunDue();
  } else {
    manager_->CloseSession(front.id, front.epoch, how == "death");
  }
  EXPECT_TRUE(Answered(huge));
  EXPECT_TRUE(Answered(small));
}

INSTANTIATE_TEST_SUITE_P(HowTheFrontLeaves, LeavingTest,
                         testing::Values("cancel", "expiry", "hang-up",
                                         "death"));

// --- Quota ------------------------------------------------------------------------

class QuotaTest : public LeaseWaitTest {
 protected:
  const Identity small_ = Who(1002, "small");  // 8 pages
  LeaseManager::SessionInfo mine_ = Open(small_);
};

TEST_F(QuotaTest, RefusesWithTheFigures) {
  Hold(mine_.id, Spec(6));
  const auto answer = Acquire(mine_.id, Spec(3));
  const auto refusal = RefusalOf(answer->status());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, kQuota);
  EXPECT_EQ(refusal->wanted, Pages(3));
  EXPECT_EQ(refusal->available, Pages(2));
  EXPECT_TRUE(Acquire(mine_.id, Spec(2))->ok());
}

TEST_F(QuotaTest, MemoryThatIsKeptAfterTheReleaseStaysCharged) {
  const Lease lease = Hold(mine_.id, Spec(8));
  EXPECT_EQ(*manager_->Release(small_, lease.id, ""), Pages(8));
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  EXPECT_EQ(Charged(small_), Pages(8));
  EXPECT_EQ(ReasonOf(Acquire(mine_.id, Spec(1))->status()), kQuota);
  Drop(lease.id);
  Settle();
  EXPECT_EQ(Charged(small_), Bytes(0));
  EXPECT_TRUE(Acquire(mine_.id, Spec(8))->ok());
}

TEST_F(QuotaTest, TwoWaitersOfADomainDoNotExceedItTogether) {
  const Lease held = Hold(session_.id, Spec(16));
  const AcquireSpec a = Waiting(6);
  const AcquireSpec b = Waiting(6);
  ASSERT_FALSE(Acquire(mine_.id, a).has_value());
  ASSERT_FALSE(Acquire(mine_.id, b).has_value());
  GiveBack(who_, held.id);
  ASSERT_TRUE(Answered(a));
  ASSERT_TRUE(Answered(b));
  EXPECT_TRUE(answers_.at(a.request_id)->ok());
  EXPECT_EQ(ReasonOf(StatusOf(b)), kQuota);
  EXPECT_EQ(Charged(small_), Pages(6));
  Settle();
  EXPECT_EQ(Clean(), PageCount(10)) << "what was taken for it came back";
}

TEST_F(QuotaTest, RoundingUpIsCharged) {
  AcquireSpec spec = Spec(1);
  spec.segments[0].size = Bytes(1);
  Hold(mine_.id, spec);
  EXPECT_EQ(Charged(small_), Pages(1));
}

}  // namespace
}  // namespace hugepool
