#include "daemon/pool/shape_plan.h"

#include <gtest/gtest.h>

namespace hugepool {
namespace {

PageCount P(uint64_t n) { return PageCount(n); }

std::vector<PageCount> Shapes(std::initializer_list<uint64_t> list) {
  std::vector<PageCount> out;
  for (uint64_t n : list) out.push_back(P(n));
  return out;
}

TEST(DefaultShapes, OnePageAndWhatMakes32MiBAnd1GiB) {
  EXPECT_EQ(DefaultShapes(k2M), Shapes({512, 16, 1}));
  EXPECT_EQ(DefaultShapes(k1G), Shapes({1}));
  EXPECT_EQ(DefaultShapes(PageSize::FromShift(16)), Shapes({16384, 512, 1}));
  EXPECT_EQ(DefaultShapes(PageSize::FromShift(25)), Shapes({32, 1}));
  EXPECT_EQ(DefaultShapes(PageSize::FromShift(34)), Shapes({1}));
}

TEST(ShapeLearner, LearnsWhatWasAskedThreeTimes) {
  ShapeLearner learner;
  learner.Note(P(48));
  learner.Note(P(48));
  EXPECT_EQ(learner.Learned(), Shapes({}));
  learner.Note(P(48));
  EXPECT_EQ(learner.Learned(), Shapes({48}));
}

TEST(ShapeLearner, TheTwoAskedForMost) {
  ShapeLearner learner;
  for (int i = 0; i < 3; ++i) learner.Note(P(10));
  for (int i = 0; i < 5; ++i) learner.Note(P(20));
  for (int i = 0; i < 4; ++i) learner.Note(P(30));
  EXPECT_EQ(learner.Learned(), Shapes({20, 30}));
}

TEST(ShapeLearner, OldHabitsFade) {
  ShapeLearner learner;
  for (int i = 0; i < 8; ++i) learner.Note(P(10));
  ASSERT_EQ(learner.Learned(), Shapes({10}));
  // Others, each rare, for two half-lives.
  for (uint64_t i = 0; i < 64; ++i) learner.Note(P(100 + i));
  EXPECT_EQ(learner.Learned(), Shapes({}));
}

TEST(ShapeLearner, AFloodOfSizesDoesNotDriveOutAHabit) {
  ShapeLearner learner;
  for (int i = 0; i < 12; ++i) learner.Note(P(10));
  for (uint64_t i = 0; i < 30; ++i) learner.Note(P(1000 + i));
  EXPECT_EQ(learner.Learned(), Shapes({10}));
}

TEST(PlanShapes, LeavesAnEighthForTheSmallerOnes) {
  // 64 pages: 56 of them in sevens of 8, 8 left: 7 in fours, so one; 4 singles.
  EXPECT_EQ(PlanShapes(P(64), Shapes({8, 4, 1}), {}),
            (ShapeCounts{{P(8), 7}, {P(4), 1}, {P(1), 4}}));
}

TEST(PlanShapes, AtLeastOneOfEachThatFits) {
  EXPECT_EQ(PlanShapes(P(512), Shapes({512, 16, 1}), {}),
            (ShapeCounts{{P(512), 1}}));
  EXPECT_EQ(PlanShapes(P(513), Shapes({512, 16, 1}), {}),
            (ShapeCounts{{P(512), 1}, {P(1), 1}}));
  EXPECT_EQ(PlanShapes(P(20), Shapes({512, 16, 1}), {}),
            (ShapeCounts{{P(16), 1}, {P(1), 4}}));
}

TEST(PlanShapes, NothingOutOfNothing) {
  EXPECT_EQ(PlanShapes(P(0), Shapes({8, 1}), Shapes({3})), ShapeCounts{});
  EXPECT_EQ(PlanShapes(P(7), Shapes({8}), {}), ShapeCounts{});
}

TEST(PlanShapes, OneOfALearnedShapeThatTakesAtMostHalf) {
  EXPECT_EQ(PlanShapes(P(40), Shapes({1}), Shapes({20})),
            (ShapeCounts{{P(20), 1}, {P(1), 20}}));
  EXPECT_EQ(PlanShapes(P(40), Shapes({1}), Shapes({21})),
            (ShapeCounts{{P(1), 40}}));
  EXPECT_EQ(PlanShapes(P(40), Shapes({1}), Shapes({20, 15})),
            (ShapeCounts{{P(20), 1}, {P(15), 1}, {P(1), 5}}));
}

TEST(PlanShapes, OrderOfTheShapesDoesNotMatterAndNothingIsLeftOver) {
  for (uint64_t pages = 0; pages < 300; ++pages) {
    const ShapeCounts plan = PlanShapes(P(pages), Shapes({1, 64, 8}), {});
    EXPECT_EQ(plan, PlanShapes(P(pages), Shapes({64, 8, 1}), {}));
    EXPECT_EQ(TotalPages(plan), P(pages));
  }
}

}  // namespace
}  // namespace hugepool
