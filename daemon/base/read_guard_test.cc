#include "daemon/base/read_guard.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hugepool {
namespace {

// Counts those that live.
struct Part {
  explicit Part(int* alive, int value = 0) : alive(alive), value(value) {
    ++*alive;
  }
  ~Part() { --*alive; }
  int* const alive;
  const int value;
};

TEST(ReadGuard, FreesAtOnceWhereNobodyReads) {
  int alive = 0;
  ReadGuard guard;
  GuardedPtr<Part> part(std::make_unique<Part>(&alive, 1));
  part.Replace(std::make_unique<Part>(&alive, 2), guard);
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(guard.waiting(), 1);
  EXPECT_EQ(guard.Collect(), 1);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(guard.waiting(), 0);
  EXPECT_EQ(part.LoadAsWriter()->value, 2);
}

TEST(ReadGuard, KeepsWhatAReaderMayHave) {
  int alive = 0;
  ReadGuard guard;
  GuardedPtr<Part> part(std::make_unique<Part>(&alive, 1));
  std::optional<ReadGuard::Scope> scope(guard);
  Part* const read = part.Load(*scope);
  part.Replace(std::make_unique<Part>(&alive, 2), guard);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(guard.Collect(), 0);
  EXPECT_EQ(read->value, 1);
  EXPECT_EQ(part.Load(*scope)->value, 2);
  scope.reset();
  EXPECT_EQ(guard.Collect(), 1);
  EXPECT_EQ(alive, 1);
}

TEST(ReadGuard, ReadersThatOverlapWithoutEndDoNotStarveIt) {
  int alive = 0;
  ReadGuard guard;
  auto reader = std::make_unique<ReadGuard::Scope>(guard);
  guard.Retire(std::make_unique<Part>(&alive));
  // At every Collect somebody reads, never the same for long.
  int rounds = 0;
  while (alive > 0) {
    ASSERT_LT(++rounds, 5);
    guard.Collect();
    auto next = std::make_unique<ReadGuard::Scope>(guard);
    reader = std::move(next);
  }
}

TEST(ReadGuard, WhatIsRetiredLaterWaitsForReadersThatCameLater) {
  int alive = 0;
  ReadGuard guard;
  GuardedPtr<Part> part(std::make_unique<Part>(&alive, 1));
  std::optional<ReadGuard::Scope> old(guard);
  part.Replace(std::make_unique<Part>(&alive, 2), guard);
  // The other phase was seen empty; this reader goes there, and has part 2.
  guard.Collect();
  std::optional<ReadGuard::Scope> young(guard);
  Part* const second = part.Load(*young);
  part.Replace(std::make_unique<Part>(&alive, 3), guard);
  old.reset();
  EXPECT_EQ(guard.Collect(), 1);
  EXPECT_EQ(guard.waiting(), 1);
  EXPECT_EQ(second->value, 2);
  young.reset();
  EXPECT_EQ(guard.Collect(), 1);
  EXPECT_EQ(alive, 1);
}

TEST(ReadGuard, FreesInOrderAndTheRestAtItsEnd) {
  std::string order;
  int alive = 0;
  {
    ReadGuard guard;
    guard.Retire([&order] { order += "a"; });
    guard.Retire([&order] { order += "b"; });
    EXPECT_EQ(guard.Collect(), 2);
    EXPECT_EQ(order, "ab");
    guard.Retire([&order] { order += "c"; });
    guard.Retire(std::make_unique<Part>(&alive));
    guard.Retire(std::unique_ptr<Part>());
    EXPECT_EQ(guard.waiting(), 2);
  }
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(alive, 0);
}

TEST(ReadGuard, MayRetireFromWhatItFrees) {
  ReadGuard guard;
  int freed = 0;
  guard.Retire([&] { guard.Retire([&freed] { ++freed; }); });
  EXPECT_EQ(guard.Collect(), 1);
  EXPECT_EQ(freed, 0);
  EXPECT_EQ(guard.Collect(), 1);
  EXPECT_EQ(freed, 1);
}

TEST(ReadGuardDeathTest, MustNotEndBeforeItsReaders) {
  EXPECT_DEATH(
      {
        auto guard = std::make_unique<ReadGuard>();
        new ReadGuard::Scope(*guard);
        guard.reset();
      },
      "ends after its readers");
}

// A list whose nodes a writer replaces, one here and one there.
struct Node {
  ~Node() { value = 0xdead; }
  uint64_t value = 42;
  GuardedPtr<Node> next;
};

std::unique_ptr<Node> MakeNode() { return std::make_unique<Node>(); }

TEST(ReadGuard, StressOfSixteenThreads) {
  constexpr int kReaders = 13;
  constexpr int kWriters = 3;
  ReadGuard guard;
  std::vector<std::unique_ptr<GuardedPtr<Node>>> heads;
  for (int i = 0; i < kWriters; ++i) {
    heads.push_back(std::make_unique<GuardedPtr<Node>>(MakeNode()));
    heads[i]->LoadAsWriter()->next.Replace(MakeNode(), guard);
  }
  // relaxed: a flag to stop, and a count.
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < kReaders; ++t) {
    readers.emplace_back([&, t] {
      for (uint64_t i = t; !stop.load(std::memory_order_relaxed); ++i) {
        ReadGuard::Scope scope(guard);
        Node* const node = heads[i % kWriters]->Load(scope);
        Node* const next = node->next.Load(scope);
        if (node->value != 42 || (next != nullptr && next->value != 42)) {
          wrong.fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  }
  std::vector<std::thread> writers;
  for (int t = 0; t < kWriters; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        if (i % 3 == 0) {
          auto head = MakeNode();
          head->next.Replace(MakeNode(), guard);
          heads[t]->Replace(std::move(head), guard);
        } else {
          heads[t]->LoadAsWriter()->next.Replace(MakeNode(), guard);
        }
        if (i % 7 == 0) guard.Collect();
      }
    });
  }
  for (std::thread& t : writers) t.join();
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(wrong.load(std::memory_order_relaxed), 0u);
  guard.Collect();
  EXPECT_EQ(guard.waiting(), 0);
}

}  // namespace
}  // namespace hugepool
