#include "daemon/clear/thread_tuner.h"

#include <map>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace hugepool {
namespace {

// Seconds to clear `size` by threads.
struct Table {
  std::string name;
  Bytes size;
  std::map<int, double> seconds;
};

// Published with the kernel's parallel clear_gigantic_page (ktask, linux-mm,
// August 2017): clearing a range of gigantic pages, least of several times.
const Table kTables[] = {
    {"SPARC T7-4, 50 GiB", GiB(50),
     {{1, 7.77}, {2, 3.95}, {4, 2.02}, {8, 1.24}, {16, 0.79}}},
    {"SPARC T7-4, 100 GiB", GiB(100),
     {{1, 15.50}, {2, 8.10}, {4, 4.45}, {8, 2.99}, {16, 1.99}}},
    {"SPARC T7-4, 200 GiB", GiB(200),
     {{1, 31.03}, {2, 16.47}, {4, 9.20}, {8, 6.01}, {16, 4.41}}},
    {"Xeon E7-8895 v3, 100 GiB", GiB(100),
     {{1, 41.13}, {2, 20.26}, {4, 9.62}, {8, 4.90}, {16, 3.94}}},
    {"Xeon E7-8895 v3, 200 GiB", GiB(200),
     {{1, 89.68}, {2, 40.64}, {4, 19.33}, {8, 9.98}, {16, 7.96}}},
    {"Xeon E7-8895 v3, 400 GiB", GiB(400),
     {{1, 188.20}, {2, 81.84}, {4, 40.62}, {8, 21.09}, {16, 15.97}}},
    {"Xeon E7-8895 v3, 800 GiB", GiB(800),
     {{1, 434.91}, {2, 170.97}, {4, 87.38}, {8, 42.86}, {16, 33.48}}},
};

// A machine that does 1 GiB in the time that a table says, give or take.
class Machine {
 public:
  Machine(const Table& table, double noise) : table_(table), noise_(noise) {}

  // One job with the count that the tuner wants.
  int Do(ThreadTuner* tuner) {
    const int threads = tuner->threads();
    const auto it = table_.seconds.find(threads);
    if (it == table_.seconds.end()) {
      ADD_FAILURE() << threads << " threads are not in the table";
      return threads;
    }
    const double gib = static_cast<double>(table_.size.value() >> 30);
    std::uniform_real_distribution<double> more(1.0, 1.0 + noise_);
    tuner->Note(threads, GiB(1),
                absl::Seconds(it->second / gib * more(random_)));
    return threads;
  }

 private:
  const Table& table_;
  const double noise_;
  std::mt19937_64 random_{7};
};

int Most(const Table& table) { return table.seconds.rbegin()->first; }

// The fewest threads within 3 % of the fastest.
int Knee(const Table& table) {
  double best = table.seconds.begin()->second;
  for (const auto& [threads, s] : table.seconds) best = std::min(best, s);
  for (const auto& [threads, s] : table.seconds) {
    if (best / s >= ThreadTuner::kGoodEnough) return threads;
  }
  return 0;
}

TEST(ThreadTuner, LandsWhereThePublishedTablesSay) {
  for (const Table& table : kTables) {
    SCOPED_TRACE(table.name);
    ThreadTuner tuner(Most(table));
    Machine machine(table, 0.02);
    for (int i = 0; i < 5 * ThreadTuner::kSamples; ++i) machine.Do(&tuner);
    EXPECT_TRUE(tuner.settled());
    EXPECT_EQ(tuner.threads(), Knee(table));
    // In all of them every doubling was worth it.
    EXPECT_EQ(tuner.threads(), 16);
  }
}

TEST(ThreadTuner, StopsWhereMoreThreadsMakeItSlower) {
  const Table slower = {"more is slower", GiB(1),
                        {{1, 1.0}, {2, 0.55}, {4, 0.35}, {8, 0.36}, {16, 0.6},
                         {32, 1.2}}};
  ThreadTuner tuner(32);
  Machine machine(slower, 0.01);
  std::map<int, int> used;
  for (int i = 0; i < 200; ++i) ++used[machine.Do(&tuner)];
  EXPECT_EQ(tuner.threads(), 4);
  EXPECT_EQ(used.count(1), 0u) << "2 was below the knee already";
}

TEST(ThreadTuner, TakesTheFewestThatAreGoodEnough) {
  const Table flat = {"one thread has all the bandwidth", GiB(1),
                      {{1, 1.0}, {2, 0.99}, {4, 0.985}, {6, 0.98}}};
  ThreadTuner tuner(6);
  Machine machine(flat, 0.0);
  for (int i = 0; i < 4 * ThreadTuner::kSamples; ++i) machine.Do(&tuner);
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.threads(), 1);
}

TEST(ThreadTuner, OneSlowJobDoesNotDecide) {
  Table table = kTables[0];
  ThreadTuner tuner(16);
  Machine machine(table, 0.0);
  for (int i = 0; i < 5 * ThreadTuner::kSamples; ++i) machine.Do(&tuner);
  // Another program took the machine for one of the jobs with 16.
  tuner.Note(16, GiB(1), absl::Seconds(10));
  machine.Do(&tuner);
  machine.Do(&tuner);
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.threads(), 16);
}

TEST(ThreadTuner, FollowsAMachineThatChanges) {
  const Table at_first = {"", GiB(1), {{1, 1.0}, {2, 0.5}, {4, 0.25}}};
  ThreadTuner tuner(4);
  Machine before(at_first, 0.0);
  for (int i = 0; i < 3 * ThreadTuner::kSamples; ++i) before.Do(&tuner);
  EXPECT_EQ(tuner.threads(), 4);
  // Others use the bandwidth now: two threads are as good.
  const Table later = {"", GiB(1), {{1, 1.0}, {2, 0.8}, {4, 0.8}}};
  Machine after(later, 0.0);
  for (int i = 0; i < 20 * ThreadTuner::kReviewEvery; ++i) after.Do(&tuner);
  EXPECT_EQ(tuner.threads(), 2);
  // And back.
  for (int i = 0; i < 20 * ThreadTuner::kReviewEvery; ++i) before.Do(&tuner);
  EXPECT_EQ(tuner.threads(), 4);
}

TEST(ThreadTuner, SmallJobsAndOddCountsSayNothing) {
  ThreadTuner tuner(4);
  for (int i = 0; i < 100; ++i) {
    tuner.Note(4, MiB(2), absl::Milliseconds(1));
    tuner.Note(3, GiB(1), absl::Milliseconds(1));
    tuner.Note(4, GiB(1), absl::ZeroDuration());
  }
  EXPECT_FALSE(tuner.settled());
  EXPECT_EQ(tuner.threads(), 4) << "all, as long as nothing is known";
  EXPECT_EQ(tuner.rate(), 0);
}

TEST(ThreadTuner, OneThreadNeedsNoTrying) {
  for (const int most : {-1, 0, 1}) {
    ThreadTuner tuner(most);
    EXPECT_EQ(tuner.threads(), 1);
    for (int i = 0; i < ThreadTuner::kSamples; ++i) {
      tuner.Note(1, GiB(1), absl::Milliseconds(100));
    }
    EXPECT_TRUE(tuner.settled());
    EXPECT_EQ(tuner.threads(), 1);
    EXPECT_NEAR(tuner.rate(), 10.0 * (1 << 30), 1e6);
  }
}

// Who always uses all threads gives no other count a sample.
TEST(ThreadTuner, AFixedNumberOfThreadsHasARateToo) {
  ThreadTuner tuner(4);
  for (int i = 0; i < 2 * ThreadTuner::kSamples; ++i) {
    tuner.Note(4, GiB(1), absl::Milliseconds(100));
    EXPECT_NEAR(tuner.rate(), 10.0 * (1 << 30), 1e6) << i;
  }
  EXPECT_FALSE(tuner.settled());
}

}  // namespace
}  // namespace hugepool
