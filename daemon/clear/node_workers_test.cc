#include "daemon/clear/node_workers.h"

#include <atomic>
#include <memory>
#include <thread>


#include "daemon/sys/fake_huge_memory.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

constexpr NodeId kNode(0);

class NodeWorkersTest : public testing::TestWithParam<int> {
 protected:
  NodeWorkersTest() { kernel_.AddPages(kNode, k2M, PageCount(512)); }
  std::unique_ptr<sys::HugeFile> File(uint64_t pages) {
    auto file = memory_.Create(k2M, PageCount(pages), kNode);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Map(kNode).ok());
    return *std::move(file);
  }
  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
};

TEST_P(NodeWorkersTest, PopulatesEveryPage) {
  NodeWorkers workers({.threads = GetParam()});
  for (uint64_t pages : {1, 15, 16, 17, 255, 300}) {
    auto file = File(pages);
    ASSERT_TRUE(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
    EXPECT_EQ(file->Facts()->allocated, file->size()) << pages;
  }
}

TEST_P(NodeWorkersTest, ZeroesEveryByteAndOnlyTheSpan) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(40);
  ASSERT_TRUE(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
  {
    auto holder = kernel_.AdoptHolder(*file->OpenForHolder());
    for (uint64_t p = 0; p < 40; ++p) holder.Write(p, 0xA5);
  }
  ASSERT_TRUE(workers.Zero(*file, Bytes(0), MiB(78), Pace::kUrgent).ok());
  EXPECT_FALSE(*file->AllZero());  // the last page was not in the span
  ASSERT_TRUE(workers.Zero(*file, MiB(78), file->size(), Pace::kUrgent).ok());
  EXPECT_TRUE(*file->AllZero());
}

TEST_P(NodeWorkersTest, ReportsTheFailureOfAnyPiece) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(300);
  kernel_.FailNextPopulateAfter(PageCount(100));
  EXPECT_EQ(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).code(),
            absl::StatusCode::kResourceExhausted);
  // The workers are fit for the next job.
  EXPECT_TRUE(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
}

TEST_P(NodeWorkersTest, AnEmptySpanIsDone) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(1);
  EXPECT_TRUE(workers.Populate(*file, MiB(2), MiB(2), Pace::kUrgent).ok());
  EXPECT_TRUE(workers.Zero(*file, Bytes(0), Bytes(0), Pace::kUrgent).ok());
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
}

TEST_P(NodeWorkersTest, CancelledJobsEndAndSayThatTheyDidNot) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(40);
  ASSERT_TRUE(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
  workers.Cancel();
  EXPECT_EQ(workers.Zero(*file, Bytes(0), file->size(), Pace::kUrgent).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).code(),
            absl::StatusCode::kCancelled);
}

TEST_P(NodeWorkersTest, CountsThreadsAndRates) {
  NodeWorkers workers({.threads = GetParam(), .tune = true});
  EXPECT_EQ(workers.zeroing().threads, GetParam()) << "the first to be tried";
  EXPECT_EQ(workers.zeroing().bytes_per_second, 0);
  auto file = File(300);
  ASSERT_TRUE(workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
  EXPECT_GT(workers.populating().bytes_per_second, 0);
  EXPECT_EQ(workers.zeroing().bytes_per_second, 0);
  ASSERT_TRUE(workers.Zero(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
  EXPECT_GT(workers.zeroing().bytes_per_second, 0);
}

// At 1 MiB a second 80 MiB would take more than a minute.
TEST_P(NodeWorkersTest, ACappedJobGoesOnAtOnceWhenSomebodyWaits) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = MiB(1)});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
  std::thread waiter([&] { workers.Hurry(); });
  EXPECT_TRUE(
      workers.Zero(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  waiter.join();
  // Until it is told otherwise.
  EXPECT_TRUE(
      workers.Zero(*file, Bytes(0), file->size(), Pace::kBackground).ok());
}

TEST_P(NodeWorkersTest, ACapSaysNothingAboutTheMachine) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = GiB(1 << 20)});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  EXPECT_EQ(workers.populating().bytes_per_second, 0);
  workers.Hurry();
  ASSERT_TRUE(
      workers.Zero(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  EXPECT_GT(workers.zeroing().bytes_per_second, 0);
}

TEST_P(NodeWorkersTest, TheCallerDoesOtherWorkWhileTheCapHoldsItUp) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = KiB(1)});
  const auto caller = std::this_thread::get_id();
  std::atomic<int> done = 0;
  workers.SetMeanwhile([&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    // Enough of it.
    if (++done == 2) workers.Hurry();
    workers.Nudge();
  });
  // Two pieces: with several threads the caller may have none left to do.
  auto file = File(32);
  std::thread other([&] { workers.Nudge(); });
  EXPECT_TRUE(
      workers.Populate(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  EXPECT_TRUE(
      workers.Zero(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  other.join();
  EXPECT_GE(done, 2);
}

TEST_P(NodeWorkersTest, ANewCapIsForTheJobAtHandToo) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = MiB(1)});
  auto file = File(40);
  std::thread admin([&] { workers.SetBandwidth(std::nullopt); });
  EXPECT_TRUE(
      workers.Populate(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  EXPECT_TRUE(
      workers.Zero(*file, Bytes(0), file->size(), Pace::kBackground).ok());
  admin.join();
}

TEST_P(NodeWorkersTest, ACappedJobEndsWhenItIsCancelled) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = MiB(1)});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, Bytes(0), file->size(), Pace::kUrgent).ok());
  workers.Hurry();
  workers.Calm();
  std::thread stop([&] { workers.Cancel(); });
  EXPECT_EQ(workers.Zero(*file, Bytes(0), file->size(), Pace::kBackground)
                .code(),
            absl::StatusCode::kCancelled);
  stop.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, NodeWorkersTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace hugepool
