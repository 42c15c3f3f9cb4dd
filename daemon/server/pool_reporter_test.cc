#include "daemon/server/pool_reporter.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace hugepool::server {
namespace {

class Sink : public NewsSink {
 public:
  void Publish(const News& news) override { all.push_back(news); }
  // How many of a kind, and forgets all.
  template <typename T>
  std::vector<T> Take() {
    std::vector<T> of_kind;
    for (const News& news : all) {
      if (const T* one = std::get_if<T>(&news)) of_kind.push_back(*one);
    }
    all.clear();
    return of_kind;
  }
  std::vector<News> all;
};

PoolSnapshot SomePool() {
  PoolSnapshot pool;
  pool.config.node = NodeId(1);
  pool.config.page_size = k2M;
  pool.config.target = PageCount(64);
  pool.charged = PageCount(48);
  pool.shortfall = "no pages";
  return pool;
}

class PoolReporterTest : public testing::Test {
 protected:
  Sink sink_;
  PoolReporter reporter_{&sink_};
};

TEST_F(PoolReporterTest, T7AShortPoolIsWarnedOfOnce) {
  PoolSnapshot pool = SomePool();
  reporter_.TellState({pool});
  const auto warnings = sink_.Take<Warning>();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].text,
            "pool of 2 MiB pages on node 1 has 96 MiB of 128 MiB: no pages");
  reporter_.TellState({pool});
  EXPECT_EQ(sink_.Take<Warning>().size(), 0u);
  pool.shortfall.clear();
  reporter_.TellState({pool});
  EXPECT_EQ(sink_.Take<Warning>().size(), 0u);
  pool.shortfall = "again";
  reporter_.TellState({pool});
  EXPECT_EQ(sink_.Take<Warning>().size(), 1u);
}

TEST_F(PoolReporterTest, EveryPoolIsShown) {
  PoolSnapshot other = SomePool();
  other.config.page_size = k1G;
  reporter_.TellState({SomePool(), other});
  EXPECT_EQ(sink_.Take<PoolChanged>().size(), 2u);
}

class ProgressTest : public PoolReporterTest {
 protected:
  // The pool now; whether progress is told.
  std::vector<FillProgress> At(int ms, uint64_t clean, uint64_t populating,
                               uint64_t made = 0) {
    PoolSnapshot pool = SomePool();
    pool.pages_by_state[static_cast<size_t>(ExtentState::kClean)] =
        PageCount(clean);
    pool.pages_by_state[static_cast<size_t>(ExtentState::kPopulating)] =
        PageCount(populating);
    pool.made = PageCount(made);
    again_ = reporter_.TellProgress({pool}, Ms(ms));
    return sink_.Take<FillProgress>();
  }
  static absl::Time Ms(int ms) {
    return absl::UnixEpoch() + absl::Milliseconds(ms);
  }
  absl::Time again_;
};

TEST_F(ProgressTest, IsToldWhileThePoolFills) {
  EXPECT_TRUE(At(0, 0, 16).empty()) << "nothing is there yet";
  EXPECT_EQ(again_, Ms(100));
  const auto first = At(100, 16, 16);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].node, NodeId(1));
  EXPECT_EQ(first[0].page_size, k2M);
  EXPECT_EQ(first[0].clean, MiB(32));
  EXPECT_EQ(first[0].target, MiB(128));
  EXPECT_EQ(again_, Ms(200));
  const auto within = At(200, 16, 16, /*made=*/7);
  ASSERT_EQ(within.size(), 1u) << "a large extent shows on the way";
  EXPECT_EQ(within[0].clean, MiB(46));
}

TEST_F(ProgressTest, NotMoreOftenThanItMay) {
  EXPECT_EQ(At(0, 16, 16).size(), 1u);
  EXPECT_TRUE(At(99, 32, 16).empty());
  EXPECT_EQ(again_, Ms(100)) << "it is owed";
  EXPECT_EQ(At(100, 32, 16).size(), 1u);
}

TEST_F(ProgressTest, OnlyWhatChanged) {
  EXPECT_EQ(At(0, 16, 16).size(), 1u);
  EXPECT_TRUE(At(500, 16, 16).empty());
  EXPECT_EQ(again_, Ms(600));
}

TEST_F(ProgressTest, TheLastStepIsToldAndThenNothing) {
  EXPECT_EQ(At(0, 16, 16).size(), 1u);
  EXPECT_TRUE(At(50, 32, 0).empty()) << "too soon";
  EXPECT_EQ(again_, Ms(100));
  const auto last = At(100, 32, 0);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].clean, MiB(64));
  EXPECT_TRUE(At(200, 32, 0).empty());
  EXPECT_EQ(again_, absl::InfiniteFuture()) << "at rest";
}

TEST_F(ProgressTest, WhatIsTakenIsNoProgress) {
  EXPECT_EQ(At(0, 32, 0).size(), 1u);
  EXPECT_TRUE(At(1000, 8, 0).empty());
  EXPECT_EQ(again_, absl::InfiniteFuture());
  EXPECT_EQ(At(2000, 12, 0).size(), 1u) << "from there on";
}

}  // namespace
}  // namespace hugepool::server
