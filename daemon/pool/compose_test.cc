#include "daemon/pool/compose.h"

#include <random>

#include <gtest/gtest.h>

namespace hugepool {
namespace {

PageCount P(uint64_t n) { return PageCount(n); }

std::vector<PageCount> Pieces(std::initializer_list<uint64_t> list) {
  std::vector<PageCount> out;
  for (uint64_t n : list) out.push_back(P(n));
  return out;
}

PageCount Sum(const std::vector<PageCount>& pieces) {
  PageCount sum;
  for (PageCount p : pieces) sum += p;
  return sum;
}

TEST(TotalPages, AddsUp) {
  EXPECT_EQ(TotalPages({}), P(0));
  EXPECT_EQ(TotalPages({{P(8), 2}, {P(1), 3}}), P(19));
}

TEST(Compose, LargestFirst) {
  EXPECT_EQ(Compose(P(21), 0, {{P(16), 4}, {P(4), 1}, {P(1), 9}}),
            Pieces({16, 4, 1}));
}

TEST(Compose, GoesOnWithSmallerOnesWhereLargeRunOut) {
  EXPECT_EQ(Compose(P(12), 0, {{P(8), 1}, {P(4), 0}, {P(1), 4}}),
            Pieces({8, 1, 1, 1, 1}));
}

TEST(Compose, StartsWithASmallerShapeWhereTheLargestDoesNotAddUp) {
  EXPECT_EQ(Compose(P(6), 0, {{P(4), 1}, {P(3), 2}}), Pieces({3, 3}));
}

TEST(Compose, ExactlyOrNotAtAll) {
  EXPECT_EQ(Compose(P(3), 0, {{P(2), 5}}), std::nullopt);
  EXPECT_EQ(Compose(P(3), 0, {}), std::nullopt);
  EXPECT_EQ(Compose(P(3), 0, {{P(4), 5}}), std::nullopt);
  EXPECT_EQ(Compose(P(3), 0, {{P(1), 2}}), std::nullopt);
}

TEST(Compose, KeepsToTheNumberOfExtents) {
  const ShapeCounts stock = {{P(4), 2}, {P(1), 8}};
  EXPECT_EQ(Compose(P(10), 4, stock), Pieces({4, 4, 1, 1}));
  EXPECT_EQ(Compose(P(10), 3, stock), std::nullopt);
  EXPECT_EQ(Compose(P(4), 1, stock), Pieces({4}));
  EXPECT_EQ(Compose(P(3), 1, stock), std::nullopt);
}

// For shapes that divide one another a set is found whenever there is one.
TEST(Compose, FindsASetOfDividingShapesWheneverOneExists) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const uint32_t n8 = random() % 4, n4 = random() % 4, n1 = random() % 8;
    const uint64_t want = 1 + random() % 60;
    const uint32_t most = random() % 8;  // 0: no limit
    bool exists = false;
    for (uint32_t a = 0; a <= n8; ++a) {
      for (uint32_t b = 0; b <= n4; ++b) {
        for (uint32_t c = 0; c <= n1; ++c) {
          exists |= 8 * a + 4 * b + c == want &&
                    (most == 0 || a + b + c <= most);
        }
      }
    }
    const auto pieces =
        Compose(P(want), most, {{P(8), n8}, {P(4), n4}, {P(1), n1}});
    ASSERT_EQ(pieces.has_value(), exists)
        << want << " of " << n8 << "x8 " << n4 << "x4 " << n1 << "x1, at most "
        << most;
    if (pieces) {
      EXPECT_EQ(Sum(*pieces), P(want));
    }
  }
}

TEST(ComposeUpTo, GivesWhatThereIs) {
  const ShapeCounts stock = {{P(4), 1}, {P(1), 2}};
  EXPECT_EQ(ComposeUpTo(P(20), 0, stock), Pieces({4, 1, 1}));
  EXPECT_EQ(ComposeUpTo(P(5), 0, stock), Pieces({4, 1}));
  EXPECT_EQ(ComposeUpTo(P(3), 0, stock), Pieces({1, 1}));
  EXPECT_EQ(ComposeUpTo(P(20), 2, stock), Pieces({4, 1}));
  EXPECT_EQ(ComposeUpTo(P(20), 0, {}), Pieces({}));
}

TEST(IdealPieces, ShapesLargestFirstThenTheRest) {
  EXPECT_EQ(IdealPieces(P(21), 0, Pieces({16, 4, 1})), Pieces({16, 4, 1}));
  EXPECT_EQ(IdealPieces(P(7), 0, Pieces({16, 4})), Pieces({4, 3}));
  EXPECT_EQ(IdealPieces(P(3), 0, Pieces({16})), Pieces({3}));
}

TEST(IdealPieces, TheLastTakesWhatMoreExtentsMayNot) {
  EXPECT_EQ(IdealPieces(P(21), 1, Pieces({16, 4, 1})), Pieces({21}));
  EXPECT_EQ(IdealPieces(P(21), 2, Pieces({16, 4, 1})), Pieces({16, 5}));
  EXPECT_EQ(IdealPieces(P(100), 2, Pieces({16, 4, 1})), Pieces({84, 16}));
  EXPECT_EQ(IdealPieces(P(3), 1, Pieces({16})), Pieces({3}));
}

TEST(IdealPieces, AlwaysAddUpAndKeepToTheLimit) {
  for (uint64_t pages = 1; pages < 200; ++pages) {
    for (uint32_t most = 0; most < 6; ++most) {
      const auto pieces = IdealPieces(P(pages), most, Pieces({32, 8, 1}));
      ASSERT_EQ(Sum(pieces), P(pages));
      if (most != 0) {
        ASSERT_LE(pieces.size(), most);
      }
    }
  }
}

TEST(TakeOne, RemovesTheLastOfAShape) {
  ShapeCounts counts = {{P(4), 1}, {P(1), 2}};
  EXPECT_TRUE(TakeOne(counts, P(4)));
  EXPECT_FALSE(TakeOne(counts, P(4)));
  EXPECT_FALSE(TakeOne(counts, P(3)));
  EXPECT_EQ(counts, (ShapeCounts{{P(1), 2}}));
}

}  // namespace
}  // namespace hugepool
