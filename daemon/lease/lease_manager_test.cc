#include "daemon/lease/lease_manager.h"

#include <cerrno>
#include <set>

#include <gtest/gtest.h>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using enum RefusalReason;

class LeaseManagerTest : public LeaseFixture {
 protected:
  LeaseManager::SessionInfo session_ = Open(Who(1000));
};

TEST_F(LeaseManagerTest, AGrantIsSentBeforeItIsAnswered) {
  AcquireSpec spec = Spec(5);
  spec.labels = {{"app", "db"}};
  const auto answer = Acquire(session_.id, spec);
  ASSERT_TRUE(answer.has_value() && answer->ok());
  ASSERT_EQ(sender_.sent.size(), 1u);
  EXPECT_EQ(sender_.sent[0].first, session_.id);
  EXPECT_EQ(sender_.sent[0].second.request_id, spec.request_id);
  EXPECT_EQ(sender_.sent[0].second.fds.size(), 2u);
  const Lease& lease = (*answer)->lease;
  EXPECT_EQ((*answer)->frames, 1u);
  EXPECT_EQ(lease.phase, LeasePhase::kGranted);
  EXPECT_EQ(lease.segments[0].granted, Pages(5));
  EXPECT_EQ(lease.labels.at("app"), "db");
  EXPECT_EQ(Charged(Who(1000)), Pages(5));
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 2u);
  EXPECT_TRUE(Ack(session_.id, lease).ok());
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  EXPECT_EQ(Told(LeaseNews::Kind::kGranted), 1);
  EXPECT_EQ(Told(LeaseNews::Kind::kHeld), 1);
}

TEST_F(LeaseManagerTest, ARequestIdIsARequestOnce) {
  const AcquireSpec spec = Spec(4);
  const Lease first = (*Acquire(session_.id, spec))->lease;
  EXPECT_EQ((*Acquire(session_.id, spec))->lease.id, first.id);
  EXPECT_EQ(sender_.sent.size(), 1u) << "nothing is sent twice";
  EXPECT_TRUE(Ack(session_.id, first).ok());
  EXPECT_EQ((*Acquire(session_.id, spec))->lease.phase, LeasePhase::kHeld);
  EXPECT_EQ(Charged(Who(1000)), Pages(4));
  const auto other = Open(Who(1000));
  EXPECT_NE((*Acquire(other.id, spec))->lease.id, first.id)
      << "ids are the session's own";
}

TEST_F(LeaseManagerTest, ARequestThatIsUnderWayIsNotStartedAgain) {
  AcquireSpec spec = Spec(16);
  Hold(session_.id, spec);
  AcquireSpec waiting = Spec(4);
  waiting.max_wait = absl::Seconds(10);
  ASSERT_FALSE(Acquire(session_.id, waiting).has_value());
  std::optional<Result> second;
  manager_->Acquire(session_.id, waiting, [&](Result r) { second = r; });
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->status().code(), absl::StatusCode::kAborted);
}

// N7: file descriptor numbers come again, lease ids never do.
TEST_F(LeaseManagerTest, AThousandLeasesHaveAThousandIds) {
  std::set<LeaseId> ids;
  uint8_t tag = 0;
  for (int i = 0; i < 1000; ++i) {
    const Lease lease = Hold(session_.id, Spec(1));
    ASSERT_TRUE(ids.insert(lease.id).second);
    EXPECT_EQ(lease.id.value() >> 32, 1u) << "the daemon's life";
    sys::FakeHolder& holder = holders_.at(lease.id)[0];
    ASSERT_EQ(holder.Read(0), 0) << "a former pattern";
    if (++tag == 0) tag = 1;
    holder.Write(0, tag);
    EXPECT_EQ(holder.Read(0), tag);
    Drop(lease.id);
    EXPECT_EQ(*manager_->Release(Who(1000), lease.id, ""), Pages(1));
    Settle();
  }
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseManagerTest, BadRequestsAreNamed) {
  const auto reason = [&](auto change) {
    AcquireSpec spec = Spec(1);
    change(spec);
    return ReasonOf(Acquire(session_.id, spec)->status());
  };
  EXPECT_EQ(reason([](auto& s) { s.request_id.clear(); }), kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.request_id.assign(129, 'x'); }), kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.name = "x"; }), kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.lifetime = Lifetime::kNamed; }), kBadRequest);
  EXPECT_EQ(reason([](auto& s) {
              s.lifetime = Lifetime::kNamed;
              s.name = "a b";
            }),
            kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.labels[""] = "x"; }), kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.labels["k"] = std::string(256, 'v'); }),
            kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.max_wait = absl::Seconds(-1); }),
            kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.time_to_live = absl::ZeroDuration(); }),
            kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.segments.clear(); }), kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.segments[0].size = Bytes(0); }),
            kBadRequest);
  EXPECT_EQ(reason([](auto& s) { s.segments[0].size = Pages(17); }),
            kNeverFits);
  EXPECT_EQ(reason([](auto& s) {
              s.segments[0].size = Bytes(uint64_t{1} << 63);
            }),
            kNeverFits);
  EXPECT_EQ(reason([](auto& s) { s.segments[0].page_sizes = {k1G}; }),
            kUnknownPageSize);
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseManagerTest, NoSessionNoLease) {
  EXPECT_EQ(ReasonOf(Acquire(SessionId(99), Spec(1))->status()), kNoFdChannel);
}

TEST_F(LeaseManagerTest, InPlaceNeedsAllOfThePermission) {
  Make({}, 64);
  const auto allowed = [&](const Identity& who, auto change) {
    const auto session = Open(who);
    AcquireSpec spec = Spec(1);
    spec.is_private = true;
    change(spec);
    const auto answer = Acquire(session.id, spec);
    return (*answer)->lease.in_place;
  };
  const auto as_is = [](AcquireSpec&) {};
  EXPECT_TRUE(allowed(Who(1000, "reuse"), as_is));
  EXPECT_FALSE(allowed(Who(1000), as_is)) << "the operator did not allow it";
  EXPECT_FALSE(allowed(Who(0, "reuse"), as_is));
  EXPECT_FALSE(allowed(Who(sys::FakeKernel::kDaemonUid, "reuse"), as_is));
  EXPECT_FALSE(allowed(Who(1000, "reuse"),
                       [](AcquireSpec& s) { s.is_private = false; }));
  EXPECT_FALSE(
      allowed(Who(1000, "reuse"), [](AcquireSpec& s) { s.sealed = true; }));
  EXPECT_FALSE(
      allowed(Who(1000, "reuse"), [](AcquireSpec& s) { s.reopenable = true; }));
}

// --- Failures of a grant ------------------------------------------------------

TEST_F(LeaseManagerTest, WithoutAcknowledgementTheGrantIsRolledBack) {
  const Lease lease = (*Acquire(session_.id, Spec(4)))->lease;
  Receive();
  Advance(absl::Milliseconds(4999));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kGranted);
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  EXPECT_EQ(Charged(Who(1000)), Pages(4)) << "its holder may have it";
  EXPECT_EQ(ReasonOf(Ack(session_.id, lease)), kLeaseGone);
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  Drop(lease.id);
  Settle();
  EXPECT_EQ(PhaseOf(lease.id), std::nullopt);
  EXPECT_EQ(Charged(Who(1000)), Bytes(0));
  EXPECT_EQ(Told(LeaseNews::Kind::kRolledBack), 1);
  EXPECT_EQ(Told(LeaseNews::Kind::kGone), 1);
}

TEST_F(LeaseManagerTest, ARefusedGrantIsRolledBack) {
  const Lease lease = (*Acquire(session_.id, Spec(4)))->lease;
  const auto other = Open(Who(1001));
  EXPECT_EQ(ReasonOf(manager_->Refuse(other.id, lease.id, 1, "no")), kLeaseGone);
  EXPECT_EQ(ReasonOf(manager_->Refuse(session_.id, lease.id, 2, "no")),
            kLeaseGone);
  EXPECT_TRUE(manager_->Refuse(session_.id, lease.id, 1, "no").ok());
  sender_.sent.clear();
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseManagerTest, AcknowledgementsOfOthersAndOfOtherGrantsAreRefused) {
  Lease lease = (*Acquire(session_.id, Spec(4)))->lease;
  EXPECT_EQ(ReasonOf(Ack(Open(Who(1001)).id, lease)), kLeaseGone);
  lease.generation = 2;
  EXPECT_EQ(ReasonOf(Ack(session_.id, lease)), kLeaseGone);
  lease.generation = 1;
  EXPECT_TRUE(Ack(session_.id, lease).ok());
  EXPECT_EQ(ReasonOf(Ack(session_.id, lease)), kLeaseGone) << "once only";
}

TEST_F(LeaseManagerTest, AFailedSendRollsBack) {
  sender_.fail = absl::UnavailableError("no connection");
  EXPECT_EQ(Acquire(session_.id, Spec(4))->status().code(),
            absl::StatusCode::kUnavailable);
  Settle();
  EXPECT_EQ(manager_->Count().leases, 0u);
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
  EXPECT_EQ(Charged(Who(1000)), Bytes(0));
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(LeaseManagerTest, AFailedSealRollsBack) {
  kernel_.FailSeal(EBUSY);
  EXPECT_FALSE(Acquire(session_.id, Spec(4))->ok());
  EXPECT_TRUE(sender_.sent.empty());
  // Nothing was opened, so the watch never sees it closed: the probe has to say
  // so several times.
  for (int i = 0; i < 10; ++i) Advance(absl::Milliseconds(60));
  EXPECT_EQ(Clean(), PageCount(16));
}

// Memory of a domain that reuses: its former holder opens it once more between
// the probe and the next grant, which takes another extent instead.
TEST_F(LeaseManagerTest, AnExtentThatWasOpenedMeanwhileIsReplaced) {
  const Identity who = Who(1000, "reuse");
  const auto session = Open(who);
  AcquireSpec spec = Spec(4);
  spec.is_private = true;
  const Lease first = Hold(session.id, spec);
  const sys::InodeId inode = holders_.at(first.id)[0].inode();
  Drop(first.id);
  EXPECT_TRUE(manager_->Release(who, first.id, "").ok());
  Settle();
  auto thief = kernel_.FinishOpen(inode, 1000);
  ASSERT_TRUE(thief.has_value()) << "an open that had passed its check";
  spec = Spec(4);
  const auto answer = Acquire(session.id, spec);
  ASSERT_TRUE(answer.has_value() && answer->ok());
  Receive();
  EXPECT_NE(holders_.at((*answer)->lease.id)[0].inode(), inode);
  EXPECT_EQ((*answer)->lease.request_id, spec.request_id);
  EXPECT_TRUE(Ack(session.id, (*answer)->lease).ok());
  thief.reset();
  Settle();
}

// --- Descriptors in flight ------------------------------------------------------

TEST_F(LeaseManagerTest, UnacknowledgedDescriptorsAreCappedBySessionAndInAll) {
  LeaseManager::Options options;
  options.max_unacknowledged_fds_per_session = 4;
  options.max_unacknowledged_fds = 6;
  Make(options, 64);
  const auto a = Open(Who(1000));
  const auto b = Open(Who(1001));
  const Lease first = (*Acquire(a.id, Spec(16)))->lease;  // 4 of 4 pages
  ASSERT_EQ(first.extents.size(), 4u);
  EXPECT_EQ(ReasonOf(Acquire(a.id, Spec(1))->status()), kQuota);
  EXPECT_EQ(ReasonOf(Acquire(b.id, Spec(12))->status()), kQuota);
  EXPECT_TRUE(Acquire(b.id, Spec(8))->ok());
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 6u);
  EXPECT_TRUE(Ack(a.id, first).ok());
  EXPECT_TRUE(Acquire(a.id, Spec(4))->ok());
}

TEST_F(LeaseManagerTest, TheEndOfASessionFreesItsShareOfTheCap) {
  (void)Acquire(session_.id, Spec(5));
  ASSERT_EQ(manager_->Count().descriptors_in_flight, 2u);
  manager_->CloseSession(session_.id, session_.epoch, true);
  EXPECT_EQ(manager_->Count().descriptors_in_flight, 0u);
}

}  // namespace
}  // namespace hugepool
