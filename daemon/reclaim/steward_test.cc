#include "daemon/reclaim/steward.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "daemon/reclaim/reclaim_fixture.h"

namespace hugepool {
namespace {

using enum ExtentState;

class StewardTest : public ReclaimFixture {
 protected:
  StewardTest() {
    kernel_.AddPages(kNode, k1G, PageCount(2));
    counters_of_both_ = std::make_unique<sys::FakeKernelPools>(&kernel_);
    MakePools(PoolConfig{});
  }
  // pool_ as `c` says, giant_ beside it, and their steward.
  void MakePools(const PoolConfig& c) {
    Make(c);
    PoolConfig giant;
    giant.node = kNode;
    giant.page_size = k1G;
    giant.target = giant.high = PageCount(2);
    giant_ = std::make_unique<Pool>(giant, table_.get());
    steward_ = std::make_unique<Steward>(StewardDeps(&clock_));
  }
  Steward::Deps StewardDeps(const Clock* clock) {
    Steward::Deps deps;
    deps.pools = {giant_.get(), pool_.get()};
    deps.kernel = counters_of_both_.get();
    deps.clock = clock;
    deps.news = [this](PoolNews news) {
      MutexLock lock(&mu_);
      back_ += news.back.size();
      grew_ += news.stock_grew;
      changed_.SignalAll();
    };
    deps.worker = Deps();
    return deps;
  }
  PageCount Clean(const Pool& pool) { return pool.Snapshot().in(kClean); }
  void Fill() {
    while (steward_->Step()) {
    }
  }

  std::unique_ptr<Pool> giant_;
  std::unique_ptr<sys::FakeKernelPools> counters_of_both_;
  Mutex mu_;
  CondVar changed_;
  size_t back_ HP_GUARDED_BY(mu_) = 0;
  int grew_ HP_GUARDED_BY(mu_) = 0;
  std::unique_ptr<Steward> steward_;
};

TEST_F(StewardTest, DoesOneItemAStepAndTakesTurnsBetweenPools) {
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*giant_), PageCount(1));
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*pool_), PageCount(4));
  EXPECT_TRUE(steward_->Step());
  EXPECT_TRUE(steward_->Step());
  EXPECT_FALSE(steward_->Step());
  EXPECT_EQ(Clean(*giant_), PageCount(2));
  EXPECT_EQ(Clean(*pool_), PageCount(8));
  MutexLock lock(&mu_);
  EXPECT_EQ(grew_, 4);
}

TEST_F(StewardTest, QuickWorkOfAnyPoolGoesBeforeBuildingInAnother) {
  while (Clean(*pool_) < PageCount(4)) ASSERT_TRUE(steward_->Step());
  const SlotId slot = Take();
  { sys::FakeHolder holder = Hold(slot); }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  const PageCount before = Clean(*giant_);
  ASSERT_LT(before, PageCount(2)) << "there is something to build";
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(State(slot), kRetiring);
  EXPECT_EQ(Clean(*giant_), before);
  MutexLock lock(&mu_);
  EXPECT_EQ(back_, 1u);
}

TEST_F(StewardTest, WhatIsGivenBackIsMadeAgainInTheSameStep) {
  while (steward_->Step()) {
  }
  const SlotId slot = Take();
  { sys::FakeHolder holder = Hold(slot); }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  EXPECT_TRUE(steward_->Step());  // the probe
  ASSERT_EQ(Clean(*pool_), PageCount(4));
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*pool_), PageCount(8));
  EXPECT_EQ(pool_->Snapshot().retired, 1u);
}

TEST_F(StewardTest, APoolWithWaitersIsBuiltForFirst) {
  {
    MutexLock lock(&pool_->mu());
    pool_->EnqueueLocked({kLease, 1, kDomain, PageCount(8), 0, PageCount(0), Bytes(0)});
  }
  EXPECT_TRUE(steward_->Step());
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*pool_), PageCount(8));
  EXPECT_EQ(Clean(*giant_), PageCount(0));
}

TEST_F(StewardTest, APoolUnderItsLowWatermarkIsBuiltForBeforeAFullerOne) {
  PoolConfig c;
  c.low = PageCount(8);
  MakePools(c);
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*pool_), PageCount(4));
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*pool_), PageCount(8)) << "no turn in between";
  EXPECT_EQ(Clean(*giant_), PageCount(0));
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*giant_), PageCount(1)) << "the rest comes last";
}

TEST_F(StewardTest, ThoseWhoWaitGoBeforeTheLowWatermark) {
  PoolConfig c;
  c.low = PageCount(8);
  MakePools(c);
  {
    MutexLock lock(&giant_->mu());
    giant_->EnqueueLocked({kLease, 1, kDomain, PageCount(2), 0, PageCount(0)});
  }
  EXPECT_TRUE(steward_->Step());
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*giant_), PageCount(2));
  EXPECT_EQ(Clean(*pool_), PageCount(0));
}

// A pool that needs it most and cannot get any keeps nobody from building.
TEST_F(StewardTest, APoolThatCannotBuildHoldsUpNobody) {
  PoolConfig c;
  c.low = PageCount(8);
  MakePools(c);
  kernel_.TakeOutside(kNode, k2M, PageCount(24));
  EXPECT_TRUE(steward_->Step());
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*giant_), PageCount(2));
}

// Two pools that both have waiters take turns: the first does not starve the
// second.
TEST_F(StewardTest, PoolsWithWaitersTakeTurns) {
  for (Pool* pool : {giant_.get(), pool_.get()}) {
    MutexLock lock(&pool->mu());
    const PageCount all = pool == giant_.get() ? PageCount(2) : PageCount(8);
    pool->EnqueueLocked({kLease, 1, kDomain, all, 0, PageCount(0)});
  }
  EXPECT_TRUE(steward_->Step());
  EXPECT_TRUE(steward_->Step());
  EXPECT_EQ(Clean(*giant_), PageCount(1));
  EXPECT_EQ(Clean(*pool_), PageCount(4));
}

// Notes how it is asked to work.
struct PacedEngine : InlineEngine {
  absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                        Pace pace) override {
    populated.push_back(pace);
    was_hurried.push_back(hurried);
    if (meanwhile) meanwhile();
    return InlineEngine::Populate(file, span, pace);
  }
  void Hurry() override { hurried = true; }
  void SetMeanwhile(std::function<void()> other_work) override {
    do_other_work = std::move(other_work);
  }
  void Calm() override { hurried = false; }

  bool hurried = false;
  std::vector<Pace> populated;
  std::vector<bool> was_hurried;
  std::function<void()> meanwhile;
  std::function<void()> do_other_work;
};

TEST_F(StewardTest, WhatComesBackIsNotHeldUpByAJobThatWaits) {
  PacedEngine engine;
  Steward::Deps deps = StewardDeps(&clock_);
  deps.worker.engine = &engine;
  Steward steward(std::move(deps));
  while (Clean(*pool_) < PageCount(4)) ASSERT_TRUE(steward.Step());
  const SlotId slot = Take();
  { sys::FakeHolder holder = Hold(slot); }
  watch_.Deliver();
  bool came_back = false;
  engine.meanwhile = [&] {
    pool_->Return(slot, kLease, true);
    engine.do_other_work();
    came_back = State(slot) == kRetiring;
    engine.meanwhile = nullptr;
  };
  while (engine.meanwhile) ASSERT_TRUE(steward.Step());
  EXPECT_TRUE(came_back);
  MutexLock lock(&mu_);
  EXPECT_EQ(back_, 1u);
}

TEST_F(StewardTest, SomebodyWhoWaitsHurriesWhatIsUnderWay) {
  PacedEngine engine;
  Steward::Deps deps = StewardDeps(&clock_);
  deps.worker.engine = &engine;
  Steward steward(std::move(deps));
  bool hurried = false;
  engine.meanwhile = [&] {
    {
      MutexLock lock(&pool_->mu());
      pool_->EnqueueLocked({kLease, 1, kDomain, PageCount(8), 0, PageCount(0), Bytes(0)});
    }
    steward.Wake();
    hurried = engine.hurried;
    engine.meanwhile = nullptr;
  };
  EXPECT_TRUE(steward.Step());
  EXPECT_EQ(engine.populated, std::vector<Pace>{Pace::kBackground});
  EXPECT_EQ(engine.was_hurried, std::vector<bool>{false});
  EXPECT_TRUE(hurried);
  // As long as somebody waits nothing is held back; then all is calm again.
  EXPECT_TRUE(steward.Step());
  EXPECT_TRUE(engine.was_hurried.back());
  {
    MutexLock lock(&pool_->mu());
    EXPECT_TRUE(pool_->DequeueLocked(kLease));
  }
  steward.Step();
  EXPECT_FALSE(engine.hurried);
  steward.Wake();
  EXPECT_FALSE(engine.hurried);
}

TEST_F(StewardTest, WithoutCountersItBuildsAsFarAsTheTarget) {
  struct NoCounters : sys::KernelPools {
    const std::vector<PageSize>& page_sizes() const override { return none; }
    absl::StatusOr<sys::KernelCounters> Read(NodeId, PageSize) const override {
      return absl::NotFoundError("no sysfs");
    }
    absl::StatusOr<PageCount> SetTotal(NodeId, PageSize, PageCount) override {
      return absl::NotFoundError("no sysfs");
    }
    std::vector<PageSize> none;
  } no_counters;
  Steward::Deps deps = StewardDeps(&clock_);
  deps.kernel = &no_counters;
  Steward steward(std::move(deps));
  while (steward.Step()) {
  }
  EXPECT_EQ(Clean(*pool_), PageCount(8));
}

// N13: a refused policy is tried again with a backoff, not in a loop.
TEST_F(StewardTest, ABuildThatAlwaysFailsIsTriedTenTimesInTenSecondsAtMost) {
  kernel_.FailNext(sys::FakeKernel::Op::kPolicy, EPERM, 0, /*times=*/1000);
  int steps = 0;
  for (int ms = 0; ms < 10000; ms += 10) {
    while (steward_->Step()) ASSERT_LT(++steps, 100);
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_LE(steps, 2 * 2 * 10) << "build and retire, two pools";
  EXPECT_EQ(kernel_.PagesInInodes(kNode, k2M), PageCount(0));
}

// --- The thread -------------------------------------------------------------

TEST_F(StewardTest, TheThreadFillsThePoolsAndAnswersAWake) {
  steward_ = std::make_unique<Steward>(StewardDeps(Clock::Real()));
  steward_->Start();
  {
    MutexLock lock(&mu_);
    while (grew_ < 4) changed_.Wait(&mu_);
  }
  const SlotId slot = Take();
  pool_->Return(slot, kLease, true);
  steward_->Wake();
  {
    MutexLock lock(&mu_);
    while (back_ < 1 || grew_ < 5) changed_.Wait(&mu_);
  }
  steward_->Stop();
  steward_->Stop();
  EXPECT_EQ(Clean(*pool_), PageCount(8));
  EXPECT_TRUE(pool_->CheckInvariants().ok());
}

TEST_F(StewardTest, StopsAtOnceWhenThereIsNothingToDo) {
  Fill();
  steward_ = std::make_unique<Steward>(StewardDeps(Clock::Real()));
  steward_->Start();
  steward_->Stop();
  EXPECT_EQ(Clean(*pool_), PageCount(8));
}

TEST_F(StewardTest, StoppingOneThatNeverStartedIsNothing) { steward_->Stop(); }

}  // namespace
}  // namespace hugepool
