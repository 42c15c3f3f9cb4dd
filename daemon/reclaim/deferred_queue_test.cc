#include "daemon/reclaim/deferred_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace hugepool {

// Spoils what CheckInvariants is to find.
class DeferredQueuePeer {
 public:
  static void SetQueued(DeferredExtent& e, bool queued) {
    // relaxed: one thread.
    e.queued_.store(queued, std::memory_order_relaxed);
  }
  static DeferredExtent*& Prev(DeferredExtent& e) { return e.prev_; }
  static DeferredExtent*& Next(DeferredExtent& e) { return e.next_; }
  static absl::Time& Since(DeferredExtent& e) { return e.since_; }
  static bool& Ended(DeferredExtent& e) { return e.ended_; }
};

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PageCount P(uint64_t n) { return PageCount(n); }
absl::Time At(int seconds) { return absl::FromUnixSeconds(seconds); }

class DeferredQueueTest : public testing::Test {
 protected:
  ~DeferredQueueTest() override { EXPECT_EQ(queue_.CheckInvariants(), Ok()); }
  static absl::Status Ok() { return absl::OkStatus(); }
  DeferredRef Make(uint64_t id) {
    return DeferredExtent::Make(&queue_, nullptr, ExtentId(id), LeaseId(1), P(512));
  }
  // `n` extents with a page released each, the first at second 1.
  std::vector<DeferredRef> MakeQueued(int n) {
    std::vector<DeferredRef> extents;
    for (int i = 1; i <= n; ++i) {
      extents.push_back(Make(static_cast<uint64_t>(i)));
      extents.back()->Release(P(0), P(1), At(i));
    }
    return extents;
  }
  static std::vector<uint64_t> Ids(const DeferredQueue::Batch& batch) {
    std::vector<uint64_t> ids;
    for (const auto& item : batch) ids.push_back(item.extent->id().value());
    return ids;
  }
  DeferredQueue queue_;
};

TEST_F(DeferredQueueTest, ManyRangesOfAnExtentTakeTheLockOnce) {
  const DeferredRef extent = Make(1);
  for (uint64_t p = 0; p < 100; ++p) {
    EXPECT_EQ(extent->Release(P(p), P(1), At(5)).fresh, P(1));
  }
  const DeferredQueue::Stats stats = queue_.stats();
  EXPECT_EQ(stats.length, 1u);
  EXPECT_EQ(stats.adds, 100u);
  EXPECT_EQ(stats.early_exits, 99u);
  EXPECT_EQ(stats.add_locks, 1u);
  EXPECT_EQ(stats.locks, 1u);
  EXPECT_EQ(stats.contended, 0u);
  EXPECT_EQ(stats.queued, 1u);
  EXPECT_EQ(stats.oldest, At(5));
}

TEST_F(DeferredQueueTest, WithoutTheLookEachRangeTakesTheLock) {
  DeferredQueue queue({.look_first = false});
  const DeferredRef extent =
      DeferredExtent::Make(&queue, nullptr, ExtentId(1), LeaseId(1), P(512));
  for (uint64_t p = 0; p < 100; ++p) extent->Release(P(p), P(1), At(5));
  EXPECT_EQ(queue.stats().add_locks, 100u);
  EXPECT_EQ(queue.stats().early_exits, 0u);
  EXPECT_EQ(queue.stats().length, 1u);
  EXPECT_EQ(queue.CheckInvariants(), Ok());
}

TEST_F(DeferredQueueTest, WhatWasReleasedBeforeQueuesNothing) {
  const DeferredRef extent = Make(1);
  extent->Release(P(0), P(8), At(1));
  auto batch = queue_.TakeBatch(1);
  ASSERT_EQ(batch.size(), 1u);
  batch[0].extent->released().TakePending(P(512));
  batch.clear();
  EXPECT_EQ(extent->Release(P(2), P(3), At(2)).again, P(3));
  EXPECT_EQ(queue_.stats().length, 0u);
  EXPECT_EQ(extent->Release(P(7), P(2), At(2)).fresh, P(1));
  EXPECT_EQ(queue_.stats().length, 1u);
}

TEST_F(DeferredQueueTest, BatchesAreBoundedAndInOrder) {
  const auto extents = MakeQueued(DeferredQueue::kLargestBatch + 3);
  EXPECT_TRUE(queue_.TakeBatch(0).empty());
  EXPECT_TRUE(queue_.TakeBatch(-1).empty());
  EXPECT_THAT(Ids(queue_.TakeBatch(2)), ElementsAre(1, 2));
  EXPECT_EQ(queue_.TakeBatch(1 << 30).size(),
            static_cast<size_t>(DeferredQueue::kLargestBatch));
  EXPECT_EQ(queue_.stats().length, 1u);
  EXPECT_EQ(queue_.TakeBatch(5).size(), 1u);
  EXPECT_TRUE(queue_.TakeBatch(5).empty());
  EXPECT_EQ(queue_.stats().oldest, absl::InfiniteFuture());
}

TEST_F(DeferredQueueTest, SurvivorsGoToTheTailAndKeepTheirAge) {
  const auto extents = MakeQueued(3);
  queue_.PutBack(queue_.TakeBatch(1));
  EXPECT_EQ(queue_.stats().oldest, At(1));
  EXPECT_EQ(queue_.stats().put_back, 1u);
  const auto batch = queue_.TakeBatch(3);
  EXPECT_THAT(Ids(batch), ElementsAre(2, 3, 1));
  EXPECT_EQ(batch[2].since, At(1));
}

TEST_F(DeferredQueueTest, WhatIsQueuedAgainMeanwhileIsNotLinkedTwice) {
  const auto extents = MakeQueued(1);
  auto batch = queue_.TakeBatch(1);
  extents[0]->Release(P(9), P(1), At(20));
  EXPECT_EQ(queue_.stats().oldest, At(20));
  EXPECT_EQ(extents[0]->references(), 3u);
  queue_.PutBack(std::move(batch));
  EXPECT_EQ(queue_.stats().length, 1u);
  EXPECT_EQ(queue_.stats().oldest, At(1));
  EXPECT_EQ(extents[0]->references(), 2u);
  EXPECT_EQ(queue_.TakeBatch(5).size(), 1u);
}

TEST_F(DeferredQueueTest, AnExtentThatWasFinishedBeginsAnew) {
  const auto extents = MakeQueued(1);
  queue_.TakeBatch(1)[0].extent->released().TakePending(P(1));
  extents[0]->Release(P(9), P(1), At(20));
  EXPECT_EQ(queue_.stats().oldest, At(20));
}

TEST_F(DeferredQueueTest, AnEndedLeaseLeavesForGood) {
  const auto extents = MakeQueued(3);
  EXPECT_TRUE(queue_.Remove(*extents[1]));
  EXPECT_FALSE(queue_.Remove(*extents[1]));
  EXPECT_EQ(extents[1]->references(), 1u);
  // A release that was under way.
  extents[1]->Release(P(9), P(1), At(20));
  EXPECT_EQ(queue_.stats().length, 2u);
  EXPECT_EQ(queue_.stats().removed, 1u);
  EXPECT_THAT(Ids(queue_.TakeBatch(3)), ElementsAre(1, 3));
}

TEST_F(DeferredQueueTest, ALeaseThatEndsInABatchDoesNotComeBack) {
  const auto extents = MakeQueued(2);
  auto batch = queue_.TakeBatch(2);
  EXPECT_FALSE(queue_.Remove(*extents[0]));
  queue_.PutBack(std::move(batch));
  EXPECT_EQ(extents[0]->references(), 1u);
  EXPECT_EQ(extents[1]->references(), 2u);
  EXPECT_THAT(Ids(queue_.TakeBatch(3)), ElementsAre(2));
}

TEST_F(DeferredQueueTest, TheQueueKeepsWhatNobodyElseDoes) {
  MakeQueued(2).clear();
  EXPECT_EQ(queue_.CheckInvariants(), Ok());
  auto batch = queue_.TakeBatch(1);
  EXPECT_EQ(batch[0].extent->references(), 1u);
  EXPECT_EQ(batch[0].extent->released().released(), P(1));
}

TEST_F(DeferredQueueTest, CountsWhenSomebodyElseHasTheLock) {
  const auto extents = MakeQueued(300);
  // relaxed: a flag to stop.
  std::atomic<bool> stop{false};
  // Has the lock nearly all the time.
  std::thread walker([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      EXPECT_EQ(queue_.CheckInvariants(), Ok());
    }
  });
  while (queue_.stats().contended == 0) {
    for (int i = 0; i < 50; ++i) queue_.PutBack(queue_.TakeBatch(1));
  }
  stop.store(true, std::memory_order_relaxed);
  walker.join();
  EXPECT_LE(queue_.stats().contended, queue_.stats().locks);
}

TEST_F(DeferredQueueTest, CheckFindsWhatDoesNotAgree) {
  using Peer = DeferredQueuePeer;
  const auto extents = MakeQueued(3);
  DeferredExtent& e = *extents[1];
  const auto wrong = [this] {
    const absl::Status status = queue_.CheckInvariants();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return status.ToString();
  };
  Peer::SetQueued(e, false);
  EXPECT_THAT(wrong(), HasSubstr("extent 2 is linked, but not flagged"));
  Peer::SetQueued(e, true);
  Peer::Ended(e) = true;
  EXPECT_THAT(wrong(), HasSubstr("its lease came back"));
  Peer::Ended(e) = false;
  Peer::Since(e) = At(77);
  EXPECT_THAT(wrong(), HasSubstr("not found by its age"));
  Peer::Since(e) = At(2);
  Peer::Prev(e) = &e;
  EXPECT_THAT(wrong(), HasSubstr("does not lead back"));
  Peer::Prev(e) = extents[0].get();
  DeferredExtent* const last = Peer::Next(e);
  Peer::Next(e) = nullptr;
  EXPECT_THAT(wrong(), HasSubstr("2 extents linked, 3 known by age"));
  Peer::Next(e) = last;
}

// Releases from many threads, scanners that take, split and put back, and
// leases that end meanwhile.
TEST_F(DeferredQueueTest, StressOfSixteenThreads) {
  constexpr int kReleasers = 12;
  constexpr int kScanners = 3;
  constexpr uint64_t kPages = 512;
  std::vector<DeferredRef> extents;
  for (uint64_t i = 1; i <= 200; ++i) extents.push_back(Make(i));
  std::latch start(kReleasers + kScanners + 1);
  // In place of a work item: one scanner at a time works on an extent.
  std::vector<std::atomic_flag> worked(extents.size() + 1);
  // relaxed: the joins order what is read after them.
  std::atomic<int> releasing{kReleasers};
  std::vector<std::thread> threads;
  for (int t = 0; t < kReleasers; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (uint64_t p = t; p < kPages; p += kReleasers) {
        for (const DeferredRef& e : extents) {
          EXPECT_EQ(e->Release(P(p), P(1), At(1)).fresh, P(1));
        }
      }
      releasing.fetch_sub(1, std::memory_order_relaxed);
    });
  }
  for (int t = 0; t < kScanners; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      while (releasing.load(std::memory_order_relaxed) > 0) {
        DeferredQueue::Batch survivors;
        for (auto& item : queue_.TakeBatch(4 + t)) {
          std::atomic_flag& busy = worked[item.extent->id().value()];
          if (!busy.test_and_set(std::memory_order_acquire)) {
            item.extent->released().TakePending(P(40));
            const bool pending = item.extent->released().Pending();
            busy.clear(std::memory_order_release);
            if (!pending) continue;
          }
          survivors.push_back(std::move(item));
        }
        queue_.PutBack(std::move(survivors));
      }
    });
  }
  threads.emplace_back([&] {
    start.arrive_and_wait();
    for (size_t i = 0; i < extents.size(); i += 2) {
      queue_.Remove(*extents[i]);
      EXPECT_EQ(queue_.CheckInvariants(), Ok());
    }
  });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(queue_.CheckInvariants(), Ok());
  // What is still to be split is queued: nothing was forgotten.
  for (auto batch = queue_.TakeBatch(64); !batch.empty();
       batch = queue_.TakeBatch(64)) {
    for (auto& item : batch) {
      EXPECT_EQ(item.extent->id().value() % 2, 0u);
      item.extent->released().TakePending(P(kPages));
    }
  }
  for (size_t i = 0; i < extents.size(); ++i) {
    EXPECT_EQ(extents[i]->references(), 1u);
    EXPECT_EQ(extents[i]->released().released(), P(kPages));
    if (i % 2 == 1) {
      EXPECT_EQ(extents[i]->released().taken(), P(kPages)) << i;
    }
  }
  const DeferredQueue::Stats stats = queue_.stats();
  EXPECT_EQ(stats.adds, kPages * extents.size());
  EXPECT_EQ(stats.queued + stats.put_back, stats.taken + stats.removed);
}

}  // namespace
}  // namespace hugepool
