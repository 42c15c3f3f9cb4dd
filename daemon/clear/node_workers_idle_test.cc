// Which of the workers' doings are idle class, and that those who hurry bring
// it back.
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "daemon/clear/node_workers.h"
#include "daemon/sys/fake_huge_memory.h"
#include "daemon/sys/fake_sched_class.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

constexpr NodeId kNode(0);
constexpr uint64_t kPages = 40;

// Tells when it is worked on, on the worker's thread.
class ObservedFile : public sys::FakeHugeFile {
 public:
  using FakeHugeFile::FakeHugeFile;
  absl::Status Populate(Bytes offset, Bytes length) override {
    if (on_populate) on_populate();
    return FakeHugeFile::Populate(offset, length);
  }
  absl::Status Zero(Bytes offset, Bytes length, ZeroRoutine routine) override {
    if (on_zero) on_zero();
    return FakeHugeFile::Zero(offset, length, routine);
  }
  absl::StatusOr<Stray> FindStray(Bytes offset, Bytes length) override {
    if (on_verify) on_verify();
    return FakeHugeFile::FindStray(offset, length);
  }
  absl::Status CopyFrom(HugeFile& source, Bytes from, Bytes offset,
                        Bytes length) override {
    if (on_copy) on_copy();
    return FakeHugeFile::CopyFrom(source, from, offset, length);
  }
  std::function<void()> on_populate, on_zero, on_verify, on_copy;
};

// Asks for the time only in the normal class: the workers do so under their
// lock.
class NormalClock : public Clock {
 public:
  explicit NormalClock(const sys::FakeSchedClass* sched) : sched_(sched) {}
  absl::Time Now() const override {
    EXPECT_FALSE(sched_->IsIdle(sys::ThisThread()));
    return Clock::Real()->Now();
  }
  absl::Time WallNow() const override { return Now(); }

 private:
  const sys::FakeSchedClass* const sched_;
};

class NodeWorkersIdleTest : public testing::TestWithParam<int> {
 protected:
  NodeWorkersIdleTest() {
    kernel_.AddPages(kNode, k2M, PageCount(kPages));
    file_ = std::make_unique<ObservedFile>(
        &kernel_, *kernel_.Create(k2M, PageCount(kPages)), k2M,
        PageCount(kPages), &kind_);
    EXPECT_TRUE(file_->Map(kNode).ok());
    EXPECT_TRUE(file_->FakeHugeFile::Populate(Bytes(0), file_->size()).ok());
    auto holder = kernel_.AdoptHolder(*file_->OpenForHolder());
    for (uint64_t p = 0; p < kPages; ++p) holder.Write(p, 0xA5);
  }
  NodeWorkers::Options Options() {
    return {.threads = GetParam(), .clock = &clock_, .sched = &sched_};
  }
  bool Idle() const { return sched_.IsIdle(sys::ThisThread()); }
  absl::Status Zero(NodeWorkers& workers, Pace pace = Pace::kBackground) {
    return workers.Zero(*file_, {Bytes(0), file_->size()}, pace);
  }

  sys::FakeKernel kernel_;
  const std::atomic<sys::ProbeKind> kind_{sys::ProbeKind::kLease};
  std::unique_ptr<ObservedFile> file_;
  sys::FakeSchedClass sched_;
  NormalClock clock_{&sched_};
};

TEST_P(NodeWorkersIdleTest, ClearingInTheBackgroundIsIdleClassAndHoldsNoLock) {
  NodeWorkers::Options options = Options();
  options.bandwidth = GiB(1000);  // so that there is waiting for turns
  NodeWorkers workers(options);
  // Would never get the lock, if the worker had it.
  const auto take_lock = [&] { (void)workers.zeroing(); };
  sched_.BeforeIdle(take_lock);
  sched_.BeforeNormal(take_lock);
  std::atomic<int> pieces = 0;
  const auto caller = std::this_thread::get_id();
  file_->on_zero = [&] {
    EXPECT_TRUE(Idle());
    EXPECT_NE(std::this_thread::get_id(), caller);
    take_lock();
    ++pieces;
  };
  // Into the page tables: that takes locks in the kernel.
  int faulted_in = 0;
  file_->on_populate = [&] {
    EXPECT_FALSE(Idle());
    ++faulted_in;
  };
  workers.SetMeanwhile([&] {
    EXPECT_FALSE(Idle());
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  workers.Nudge();
  ASSERT_TRUE(Zero(workers).ok());
  EXPECT_EQ(pieces, 80 + 1) << "the last piece is cleared in two ways";
  EXPECT_EQ(faulted_in, 1);
  EXPECT_TRUE(*file_->AllZero());
  EXPECT_EQ(sched_.times_idle(), 10) << "80 MiB, 8 MiB at a time";
  EXPECT_EQ(sched_.raised(), 0);
}

TEST_P(NodeWorkersIdleTest, WhatSomebodyWaitsForIsNot) {
  NodeWorkers workers(Options());
  ASSERT_TRUE(Zero(workers, Pace::kUrgent).ok());
  workers.Hurry();
  ASSERT_TRUE(Zero(workers).ok());
  EXPECT_EQ(sched_.times_idle(), 0);
  workers.Calm();
  ASSERT_TRUE(Zero(workers).ok());
  EXPECT_GT(sched_.times_idle(), 0);
}

TEST_P(NodeWorkersIdleTest, PopulatingNeverIs) {
  NodeWorkers workers(Options());
  ASSERT_TRUE(
      workers.Populate(*file_, {Bytes(0), file_->size()}, Pace::kBackground)
          .ok());
  EXPECT_EQ(sched_.times_idle(), 0);
}

TEST_P(NodeWorkersIdleTest, VerifyingIsIdleClassToo) {
  NodeWorkers workers(Options());
  std::atomic<int> pieces = 0;
  file_->on_verify = [&] {
    EXPECT_TRUE(Idle());
    (void)workers.zeroing();  // takes the lock
    ++pieces;
  };
  file_->on_populate = [&] { EXPECT_FALSE(Idle()); };
  const auto stray =
      workers.Verify(*file_, {Bytes(0), file_->size()}, Pace::kBackground);
  ASSERT_TRUE(stray.ok()) << stray.status();
  EXPECT_EQ(stray->count, file_->size().value());
  EXPECT_EQ(stray->first, Bytes(0));
  EXPECT_EQ(pieces, 80);
}

// It reads what somebody holds: the kernel locks pages of theirs.
TEST_P(NodeWorkersIdleTest, CopyingNeverIs) {
  NodeWorkers workers(Options());
  kernel_.AddPages(kNode, k2M, PageCount(1));
  ObservedFile target(&kernel_, *kernel_.Create(k2M, PageCount(1)), k2M,
                      PageCount(1), &kind_);
  ASSERT_TRUE(target.Map(kNode).ok());
  ASSERT_TRUE(target.FakeHugeFile::Populate(Bytes(0), MiB(2)).ok());
  int pieces = 0;
  target.on_copy = [&] { pieces += Idle() ? 100 : 1; };
  ASSERT_TRUE(workers
                  .Copy(target, {{file_.get(), Bytes(0), Bytes(0), MiB(2)}},
                        Bytes(0), Pace::kBackground)
                  .ok());
  EXPECT_EQ(pieces, 2);
  EXPECT_EQ(sched_.times_idle(), 0);
}

// All helpers starve, in their first pieces.
TEST_P(NodeWorkersIdleTest, WhoHurriesBringsBackThoseThatStarve) {
  NodeWorkers workers(Options());
  std::atomic<bool> first = true;
  file_->on_zero = [&] {
    if (first.exchange(false)) workers.Hurry();
    sched_.WaitUntilNormal(sys::ThisThread());
  };
  EXPECT_TRUE(Zero(workers).ok());
  EXPECT_GT(sched_.raised(), 0);
  EXPECT_TRUE(*file_->AllZero());
}

// It was seen that somebody hurries, all were brought back; and then one goes
// idle that had made up its mind before.
TEST_P(NodeWorkersIdleTest, OneThatGoesIdleTooLateIsBroughtBackToo) {
  NodeWorkers workers(Options());
  std::atomic<bool> first = true;
  sched_.BeforeIdle([&] {
    if (!first.exchange(false)) return;
    workers.Hurry();
    sched_.WaitForCallsFromOutside(1);
  });
  file_->on_zero = [&] { sched_.WaitUntilNormal(sys::ThisThread()); };
  EXPECT_TRUE(Zero(workers).ok());
  EXPECT_GT(sched_.raised(), 0);
  EXPECT_TRUE(*file_->AllZero());
}

TEST_P(NodeWorkersIdleTest, StoppingBringsThemBack) {
  NodeWorkers workers(Options());
  std::atomic<bool> first = true;
  file_->on_zero = [&] {
    if (first.exchange(false)) workers.Cancel();
    sched_.WaitUntilNormal(sys::ThisThread());
  };
  EXPECT_EQ(Zero(workers).code(), absl::StatusCode::kCancelled);
}

TEST_P(NodeWorkersIdleTest, FailuresComeBackToo) {
  NodeWorkers workers(Options());
  ASSERT_TRUE(file_->Punch(Bytes(0), MiB(2)).ok());
  kernel_.FailNextPopulateAfter(PageCount(0));
  EXPECT_EQ(Zero(workers).code(), absl::StatusCode::kResourceExhausted)
      << "a hole is not for the idle class to find";
  EXPECT_EQ(sched_.times_idle(), 0);
  EXPECT_TRUE(Zero(workers).ok());
}

// The limits of a process can be changed from outside.
TEST_P(NodeWorkersIdleTest, WhereThereIsNoWayBackNoOtherGoes) {
  sched_.Refuse(absl::PermissionDeniedError("no"));
  // A lock would be taken in the idle class here: that cannot be helped.
  NodeWorkers::Options options = Options();
  options.clock = Clock::Real();
  NodeWorkers stuck(options);
  EXPECT_TRUE(Zero(stuck).ok());
  EXPECT_TRUE(Zero(stuck).ok());
  EXPECT_TRUE(*file_->AllZero());
  EXPECT_GE(sched_.times_idle(), 1);
  EXPECT_LE(sched_.times_idle(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Threads, NodeWorkersIdleTest,
                         testing::Values(1, 2, 4));

// The kernel's locks are held while it populates: niceness bounds for how long.
TEST_P(NodeWorkersIdleTest, PopulatingSmallPagesIsNiceUntilSomebodyHurries) {
  NodeWorkers workers(Options());
  std::atomic<int> pieces{0}, nice{0};
  file_->on_populate = [&] {
    ++pieces;
    nice += sched_.IsNice(sys::ThisThread());
    EXPECT_FALSE(Idle());
  };
  const FileSpan all{Bytes(0), file_->size()};
  ASSERT_TRUE(workers.Populate(*file_, all, Pace::kBackground).ok());
  EXPECT_EQ(nice, static_cast<int>(kPages));
  EXPECT_EQ(pieces, nice);
  EXPECT_EQ(sched_.times_idle(), 0);
  const int before = sched_.times_nice();
  workers.Hurry();
  ASSERT_TRUE(workers.Populate(*file_, all, Pace::kBackground).ok());
  ASSERT_TRUE(workers.Populate(*file_, all, Pace::kUrgent).ok());
  EXPECT_EQ(sched_.times_nice(), before);
}

// A second under mmap_lock, if others are busy.
TEST(NodeWorkersNice, PopulatingAGiganticPageIsNot) {
  sys::FakeKernel kernel;
  kernel.AddPages(kNode, k1G, PageCount(1));
  sys::FakeHugeMemory memory(&kernel);
  sys::FakeSchedClass sched;
  NodeWorkers workers({.threads = 2, .sched = &sched});
  auto file = *memory.Create(k1G, PageCount(1), kNode);
  ASSERT_TRUE(file->Map(kNode).ok());
  ASSERT_TRUE(workers
                  .Populate(*file, {Bytes(0), GiB(1)}, Pace::kBackground)
                  .ok());
  EXPECT_EQ(sched.times_nice(), 0);
  EXPECT_EQ(sched.times_idle(), 0);
}

}  // namespace
}  // namespace hugepool
