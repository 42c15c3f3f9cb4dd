#include "daemon/reclaim/verifier.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "daemon/reclaim/reclaim_fixture.h"
#include "daemon/reclaim/steward.h"

namespace hugepool {
namespace {

class VerifierTest : public ReclaimFixture {
 protected:
  VerifierTest() {
    Steward::Deps deps;
    deps.pools = {pool_.get()};
    deps.kernel = &counters_;
    deps.clock = &clock_;
    deps.news = [](PoolNews) {};
    deps.worker = Deps();
    steward_ = std::make_unique<Steward>(std::move(deps));
    Settle();
    Make(absl::InfiniteDuration());
  }
  void Make(absl::Duration every) {
    verifier_ = std::make_unique<Verifier>(
        Verifier::Deps{{pool_.get()},
                       &executor_,
                       &clock_,
                       [this](const Pool&) { ++woken_; },
                       every});
    verifier_->Start();
  }
  void Settle() {
    while (steward_->Step()) {
    }
  }
  // What an operator is told in the end.
  absl::StatusOr<Verifier::Result> Verify() {
    std::optional<absl::StatusOr<Verifier::Result>> answer;
    verifier_->Verify({pool_.get()}, [&](auto result) {
      EXPECT_FALSE(answer.has_value()) << "answered twice";
      answer = std::move(result);
    });
    executor_.RunDue();
    EXPECT_FALSE(answer.has_value()) << "nobody has looked yet";
    Settle();
    clock_.Advance(absl::Milliseconds(5));
    executor_.RunDue();
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(absl::InternalError("no answer"));
  }

  ManualExecutor executor_{&clock_};
  int woken_ = 0;
  std::unique_ptr<Steward> steward_;
  std::unique_ptr<Verifier> verifier_;
};

TEST_F(VerifierTest, LooksAtAllThatIsClean) {
  const auto result = Verify();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verified, MiB(16));
  EXPECT_EQ(result->stray, 0u);
  EXPECT_EQ(woken_, 1);
}

TEST_F(VerifierTest, FindsWhatIsNotZeroAndThePoolIsWholeAgain) {
  {
    sys::FakeHolder ghost =
        *kernel_.FinishOpen(files_.Get(SlotId(2))->inode(), 0);
    ASSERT_EQ(ghost.Write(0, 1), sys::FakeAccess::kOk);
  }
  const auto result = Verify();
  EXPECT_EQ(result->stray, MiB(2).value());
  Settle();
  EXPECT_EQ(pool_->Snapshot().in(ExtentState::kClean), PageCount(8));
  EXPECT_EQ(Verify()->stray, 0u);
}

TEST_F(VerifierTest, WhoWaitsAtTheEndIsTold) {
  std::optional<absl::Status> told;
  verifier_->Verify({pool_.get()}, [&](auto r) { told = r.status(); });
  verifier_->Stop();
  EXPECT_EQ(told->code(), absl::StatusCode::kUnavailable);
  told.reset();
  verifier_->Verify({pool_.get()}, [&](auto r) { told = r.status(); });
  EXPECT_EQ(told->code(), absl::StatusCode::kUnavailable);
  executor_.RunDue();
  Settle();
  EXPECT_EQ(pool_->Snapshot().verified, Bytes(0)) << "nobody wants it any more";
}

TEST_F(VerifierTest, TakesASampleNowAndThen) {
  Make(absl::Minutes(1));
  clock_.Advance(absl::Seconds(59));
  executor_.RunDue();
  Settle();
  EXPECT_EQ(pool_->Snapshot().verified, Bytes(0));
  for (int i = 1; i <= 3; ++i) {
    clock_.Advance(absl::Seconds(i == 1 ? 1 : 60));
    executor_.RunDue();
    Settle();
    EXPECT_GE(pool_->Snapshot().verified, MiB(16) * i);
  }
}

}  // namespace
}  // namespace hugepool
