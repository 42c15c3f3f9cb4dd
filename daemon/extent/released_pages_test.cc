#include "daemon/extent/released_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace hugepool {
namespace {

using PageRun = ReleasedPages::Run;
using Noted = ReleasedPages::Noted;
using testing::ElementsAre;
using testing::IsEmpty;

PageCount P(uint64_t n) { return PageCount(n); }
Noted N(uint64_t fresh, uint64_t again) { return {P(fresh), P(again)}; }

TEST(ReleasedPages, NotesFreshPagesAndThoseReleasedBefore) {
  ReleasedPages pages(P(512));
  EXPECT_EQ(pages.Release(P(10), P(4)), N(4, 0));
  EXPECT_EQ(pages.Release(P(12), P(4)), N(2, 2));
  EXPECT_EQ(pages.Release(P(10), P(6)), N(0, 6));
  EXPECT_EQ(pages.Release(P(0), P(512)), N(506, 6));
  EXPECT_EQ(pages.released(), P(512));
  EXPECT_EQ(pages.taken(), P(0));
}

TEST(ReleasedPages, KnowsItsOwnPages) {
  const ReleasedPages pages(P(100));
  EXPECT_TRUE(pages.Contains(P(0), P(100)));
  EXPECT_TRUE(pages.Contains(P(99), P(1)));
  EXPECT_FALSE(pages.Contains(P(99), P(2)));
  EXPECT_FALSE(pages.Contains(P(100), P(1)));
  EXPECT_FALSE(pages.Contains(P(5), P(0)));
  EXPECT_FALSE(pages.Contains(P(1), P(~uint64_t{0})));
  EXPECT_FALSE(pages.Contains(P(~uint64_t{0}), P(2)));
}

TEST(ReleasedPagesDeathTest, InsistsOnItsOwnPages) {
  ReleasedPages pages(P(100));
  EXPECT_DEATH(pages.Release(P(99), P(2)), "pages of the extent");
  EXPECT_DEATH(pages.Overlaps(P(0), P(0)), "pages of the extent");
}

TEST(ReleasedPages, OverlapsLooksAndChangesNothing) {
  ReleasedPages pages(P(512));
  pages.Release(P(63), P(2));
  EXPECT_FALSE(pages.Overlaps(P(0), P(63)));
  EXPECT_TRUE(pages.Overlaps(P(0), P(64)));
  EXPECT_TRUE(pages.Overlaps(P(64), P(448)));
  EXPECT_FALSE(pages.Overlaps(P(65), P(447)));
  EXPECT_EQ(pages.released(), P(2));
}

TEST(ReleasedPages, GivesRunsAcrossWordsAndEachPageOnce) {
  ReleasedPages pages(P(1000));
  EXPECT_FALSE(pages.Pending());
  pages.Release(P(1), P(1));
  pages.Release(P(60), P(140));
  pages.Release(P(999), P(1));
  EXPECT_TRUE(pages.Pending());
  EXPECT_THAT(pages.TakePending(P(1000)),
              ElementsAre(PageRun{P(1), P(1)}, PageRun{P(60), P(140)},
                          PageRun{P(999), P(1)}));
  EXPECT_FALSE(pages.Pending());
  EXPECT_THAT(pages.TakePending(P(1000)), IsEmpty());
  EXPECT_EQ(pages.taken(), P(142));
  EXPECT_EQ(pages.released(), P(142));
  pages.Release(P(200), P(1));
  EXPECT_THAT(pages.TakePending(P(5)), ElementsAre(PageRun{P(200), P(1)}));
}

TEST(ReleasedPages, TakesNoMoreThanIsAskedFor) {
  ReleasedPages pages(P(128));
  pages.Release(P(0), P(128));
  EXPECT_THAT(pages.TakePending(P(0)), IsEmpty());
  EXPECT_THAT(pages.TakePending(P(70)), ElementsAre(PageRun{P(0), P(70)}));
  EXPECT_TRUE(pages.Pending());
  EXPECT_THAT(pages.TakePending(P(70)), ElementsAre(PageRun{P(70), P(58)}));
  EXPECT_FALSE(pages.Pending());
}

TEST(ReleasedPages, IsTheSameAsAPlainList) {
  std::mt19937 random(7);
  const auto draw = [&random](uint64_t n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    const uint64_t size = 1 + draw(700);
    ReleasedPages pages{P(size)};
    std::vector<char> plain(size, 'k');  // kept, released, taken
    const auto count = [&plain](uint64_t first, uint64_t n, bool released) {
      uint64_t found = 0;
      for (uint64_t i = first; i < first + n; ++i) {
        found += (plain[i] != 'k') == released;
      }
      return found;
    };
    for (int op = 0; op < 60; ++op) {
      const uint64_t first = draw(size);
      const uint64_t n = 1 + draw(size - first);
      if (draw(3) == 0) {
        uint64_t left = n;
        for (const PageRun& run : pages.TakePending(P(n))) {
          for (uint64_t i = 0; i < run.count.value(); ++i, --left) {
            char& page = plain.at(run.first.value() + i);
            ASSERT_EQ(page, 'r') << run.first << " + " << i << " of " << size;
            page = 't';
          }
        }
        if (left > 0) {
          ASSERT_EQ(std::count(plain.begin(), plain.end(), 'r'), 0);
        }
      } else {
        ASSERT_EQ(pages.Overlaps(P(first), P(n)), count(first, n, true) > 0);
        const Noted wanted = N(count(first, n, false), count(first, n, true));
        ASSERT_EQ(pages.Release(P(first), P(n)), wanted);
        for (uint64_t i = first; i < first + n; ++i) {
          if (plain[i] == 'k') plain[i] = 'r';
        }
      }
      ASSERT_EQ(pages.Pending(),
                std::count(plain.begin(), plain.end(), 'r') > 0);
      ASSERT_EQ(pages.released(), P(count(0, size, true)));
      ASSERT_EQ(pages.taken(), P(std::count(plain.begin(), plain.end(), 't')));
    }
  }
}

TEST(ReleasedPages, APageIsFreshForOneOfManyThreads) {
  constexpr int kThreads = 8;
  ReleasedPages pages(P(512));
  std::vector<uint64_t> fresh(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 2000; ++i) {
        const uint64_t first = random() % 512;
        const uint64_t n = 1 + random() % std::min<uint64_t>(9, 512 - first);
        fresh[t] += pages.Release(P(first), P(n)).fresh.value();
      }
    });
  }
  // One takes meanwhile, and gets none twice.
  uint64_t taken = 0;
  while (taken < 300) {
    for (const PageRun& run : pages.TakePending(P(64)))
      taken += run.count.value();
  }
  for (std::thread& t : threads) t.join();
  for (const PageRun& run : pages.TakePending(P(512)))
    taken += run.count.value();
  uint64_t sum = 0;
  for (const uint64_t n : fresh) sum += n;
  EXPECT_EQ(P(sum), pages.released());
  EXPECT_EQ(P(taken), pages.released());
}

TEST(ReleasedPages, HasASmallHeader) { EXPECT_LE(sizeof(ReleasedPages), 32u); }

}  // namespace
}  // namespace hugepool
