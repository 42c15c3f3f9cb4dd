// Both ways of taking a lease from its holders.
#include "daemon/lease/revoker.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "daemon/lease/lease_fixture.h"
#include "daemon/sys/fake_holders.h"

namespace hugepool {
namespace {

class RevokerTest : public LeaseFixture {
 protected:
  RevokerTest() {
    session_ = Open(Who(1000)).id;
    revoker_ = std::make_unique<Revoker>(Revoker::Deps{
        manager_.get(), &sender_, &processes_, &executor_, &clock_});
    // Whom it kills lets go of all.
    processes_.on_kill = [this](pid_t pid) { Drop(lease_of_[pid]); };
  }
  void Revoke(LeaseId lease, bool kill,
              absl::Duration notice = absl::ZeroDuration()) {
    outcome_.reset();
    revoker_->Revoke({lease, kill, notice},
                     [this](absl::StatusOr<Revoker::Outcome> outcome) {
                       EXPECT_FALSE(outcome_.has_value()) << "answered twice";
                       outcome_ = std::move(outcome);
                     });
    Settle();
  }
  // A process that maps all of the lease.
  void MapsIt(pid_t pid, const Lease& lease) {
    sys::HolderProcess process{pid, 1000, "qemu", {}, {}};
    for (const TakenExtent& e : lease.extents) {
      process.mapped.insert(sys::InodeId(e.inode));
    }
    processes_.processes.push_back(std::move(process));
    lease_of_[pid] = lease.id;
  }
  Lease Sealed(uint64_t pages) {
    AcquireSpec spec = Spec(pages);
    spec.sealed = true;
    return Hold(session_, spec);
  }

  SessionId session_;
  sys::FakeHolders processes_;
  std::map<pid_t, LeaseId> lease_of_;
  std::unique_ptr<Revoker> revoker_;
  std::optional<absl::StatusOr<Revoker::Outcome>> outcome_;
};

TEST_F(RevokerTest, TakesTheMemoryAndKillsNobody) {
  const Lease lease = Hold(session_, Spec(4));
  MapsIt(4711, lease);
  Revoke(lease.id, false);
  ASSERT_TRUE(outcome_.has_value() && outcome_->ok());
  EXPECT_EQ((*outcome_)->bytes, Pages(4));
  EXPECT_EQ((*outcome_)->killed, 0u);
  EXPECT_TRUE(processes_.killed.empty());
  EXPECT_EQ(holders_[lease.id][0].Read(0), std::nullopt);
}

TEST_F(RevokerTest, ASealedLeaseNeedsKill) {
  const Lease lease = Sealed(4);
  MapsIt(4711, lease);
  Revoke(lease.id, false);
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  Revoke(lease.id, true);
  Advance(absl::Milliseconds(20));
  ASSERT_TRUE(outcome_.has_value());
  ASSERT_TRUE(outcome_->ok()) << outcome_->status();
  EXPECT_EQ((*outcome_)->bytes, Pages(4));
  EXPECT_EQ((*outcome_)->killed, 1u);
  EXPECT_EQ(processes_.killed, std::vector<pid_t>{4711});
  EXPECT_EQ(Clean(), PageCount(16));
}

TEST_F(RevokerTest, NobodyElseIsKilled) {
  const Lease lease = Sealed(4);
  const Lease other = Hold(session_, Spec(4));
  MapsIt(10, other);
  MapsIt(11, lease);
  Revoke(lease.id, true);
  Advance(absl::Milliseconds(20));
  EXPECT_EQ(processes_.killed, std::vector<pid_t>{11});
  EXPECT_EQ(PhaseOf(other.id), LeasePhase::kHeld);
}

// One that gets the memory from a socket while others are ended.
TEST_F(RevokerTest, TheHuntGoesOnWhileSomebodyTurnsUp) {
  const Lease lease = Sealed(1);
  MapsIt(11, lease);
  processes_.on_kill = [&](pid_t pid) {
    if (pid == 11) {
      MapsIt(12, lease);
    } else {
      Drop(lease.id);
    }
  };
  Revoke(lease.id, true);
  for (int i = 0; i < 3; ++i) Advance(absl::Milliseconds(20));
  ASSERT_TRUE(outcome_.has_value() && outcome_->ok());
  EXPECT_EQ((*outcome_)->killed, 2u);
}

TEST_F(RevokerTest, WhoCannotBeEndedIsNamed) {
  const Lease lease = Sealed(1);
  MapsIt(11, lease);
  processes_.refuse = absl::PermissionDeniedError("pidfd_send_signal(11): no");
  processes_.hidden = 3;
  Revoke(lease.id, true);
  for (int i = 0; i < 251; ++i) Advance(absl::Milliseconds(20));
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string text(outcome_->status().message());
  EXPECT_NE(text.find("held by 11 (qemu)"), std::string::npos) << text;
  EXPECT_NE(text.find("pidfd_send_signal(11)"), std::string::npos) << text;
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kReturning);
  Drop(lease.id);
  Settle();
}

TEST_F(RevokerTest, NobodyToBeSeenIsSaid) {
  const Lease lease = Sealed(1);
  processes_.hidden = 3;
  Revoke(lease.id, true);
  for (int i = 0; i < 251; ++i) Advance(absl::Milliseconds(20));
  ASSERT_TRUE(outcome_.has_value());
  const std::string text(outcome_->status().message());
  EXPECT_NE(text.find("nobody that /proc shows: 3 processes"),
            std::string::npos)
      << text;
  Drop(lease.id);
  Settle();
}

TEST_F(RevokerTest, TheNoticeComesBeforeTheKill) {
  const Lease lease = Sealed(1);
  MapsIt(11, lease);
  Revoke(lease.id, true, absl::Seconds(2));
  ASSERT_EQ(sender_.notices.size(), 1u);
  EXPECT_EQ(sender_.notices[0].within, absl::Seconds(2));
  Advance(absl::Milliseconds(1999));
  EXPECT_TRUE(processes_.killed.empty());
  EXPECT_EQ(PhaseOf(lease.id), LeasePhase::kHeld);
  Advance(absl::Milliseconds(1));
  Advance(absl::Milliseconds(20));
  ASSERT_TRUE(outcome_.has_value() && outcome_->ok());
}

TEST_F(RevokerTest, GivenBackDuringTheNoticeKillsNobody) {
  const Lease lease = Sealed(1);
  MapsIt(11, lease);
  Revoke(lease.id, true, absl::Seconds(2));
  ASSERT_TRUE(manager_->Release(Who(1000), lease.id, "").ok());
  Drop(lease.id);
  Settle();
  Advance(absl::Seconds(2));
  ASSERT_TRUE(outcome_.has_value() && outcome_->ok());
  EXPECT_TRUE(processes_.killed.empty());
}

TEST_F(RevokerTest, AnUnknownLeaseIsGone) {
  for (const bool kill : {false, true}) {
    Revoke(LeaseId(77), kill);
    ASSERT_TRUE(outcome_.has_value());
    EXPECT_EQ(ReasonOf(outcome_->status()), RefusalReason::kLeaseGone);
  }
}

TEST_F(RevokerTest, StopAnswersWhoWaits) {
  const Lease lease = Hold(session_, Spec(1));
  Revoke(lease.id, false, absl::Seconds(5));
  revoker_->Stop();
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(outcome_->status()));
  Revoke(lease.id, false);
  EXPECT_TRUE(absl::IsUnavailable(outcome_->status()));
  Advance(absl::Seconds(5));  // the one that was begun; nobody hears of it
}

}  // namespace
}  // namespace hugepool
