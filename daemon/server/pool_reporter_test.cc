#include "daemon/server/pool_reporter.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hugepool::server
