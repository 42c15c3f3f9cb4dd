// Zero proof under fire: the engine, ended at random points.
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "daemon/clear/node_workers.h"
#include "daemon/sys/fake_huge_memory.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

constexpr NodeId kNode(0);

// Zeroing that is hurried or ended at any moment: whatever says that it is done
// is zero.
TEST(NodeWorkersFire, WhatIsCancelledSaysSoTenThousandTimes) {
  sys::FakeKernel kernel;
  kernel.AddPages(kNode, k2M, PageCount(12));
  sys::FakeHugeMemory memory(&kernel);
  std::mt19937_64 random(9);
  int done = 0;
  int cancelled = 0;
  for (int round = 0; round < 10000; ++round) {
    const uint64_t pages = 1 + random() % 12;
    NodeWorkers workers({.threads = static_cast<int>(1 + random() % 3),
                         .bandwidth = random() % 2 == 0
                                          ? std::optional<Bytes>(GiB(1000))
                                          : std::nullopt});
    auto file = *memory.Create(k2M, PageCount(pages), kNode);
    ASSERT_TRUE(file->Map(kNode).ok());
    ASSERT_TRUE(
        workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
    {
      auto holder = kernel.AdoptHolder(*file->OpenForHolder());
      for (uint64_t p = 0; p < pages; ++p) holder.Write(p, 0xA5);
    }
    const uint64_t spins = random() % 20000;
    std::thread other([&workers, spins] {
      for (uint64_t i = 0; i < spins; ++i) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
      }
      workers.Hurry();
      workers.Cancel();
    });
    const absl::Status status =
        workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground);
    other.join();
    if (status.ok()) {
      ++done;
      ASSERT_TRUE(*file->AllZero()) << "round " << round;
    } else {
      ++cancelled;
      ASSERT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    }
  }
  // Both happened, or this shows nothing.
  EXPECT_GT(done, 0);
  EXPECT_GT(cancelled, 0);
}

}  // namespace
}  // namespace hugepool
