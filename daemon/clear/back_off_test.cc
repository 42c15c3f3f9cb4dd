#include "daemon/clear/back_off.h"

#include <random>

#include "gtest/gtest.h"

namespace hugepool {
namespace {

class BackOffTest : public testing::Test {
 protected:
  void Look(std::optional<double> pressure) {
    now_ += absl::Seconds(1);
    back_off_.Note(pressure, now_);
  }
  absl::Time now_ = absl::FromUnixSeconds(1000);
  BackOff back_off_{10};
};

TEST_F(BackOffTest, HalvesAsLongAsOthersWaitDownToASixteenth) {
  for (const double share : {0.5, 0.25, 0.125, 0.0625, 0.0625}) {
    Look(10.5);
    EXPECT_EQ(back_off_.share(), share);
    EXPECT_EQ(back_off_.pressure(), 10.5);
  }
}

TEST_F(BackOffTest, GrowsBackSlowly) {
  for (int i = 0; i < 10; ++i) Look(100);
  for (int i = 2; i <= 16; ++i) {
    Look(10);  // the limit itself is none too much
    EXPECT_EQ(back_off_.share(), i / 16.0);
  }
  Look(0);
  EXPECT_EQ(back_off_.share(), 1);
}

TEST_F(BackOffTest, ARestIsTimeToGrowUnlessOthersStillWait) {
  for (int i = 0; i < 4; ++i) Look(100);
  now_ += absl::Hours(1);
  Look(11);
  EXPECT_EQ(back_off_.share(), BackOff::kLeast);
  now_ += absl::Hours(1);
  Look(9);
  EXPECT_EQ(back_off_.share(), 1);
}

TEST_F(BackOffTest, NobodyToAskIsNobodyInTheWay) {
  Look(100);
  now_ += absl::Seconds(7);
  Look(std::nullopt);
  EXPECT_EQ(back_off_.share(), 1);
  EXPECT_EQ(back_off_.pressure(), std::nullopt);
}

TEST_F(BackOffTest, LooksOnceASecondAtMost) {
  EXPECT_TRUE(back_off_.Due(now_));
  Look(0);
  EXPECT_FALSE(back_off_.Due(now_ + absl::Milliseconds(999)));
  EXPECT_TRUE(back_off_.Due(now_ + absl::Seconds(1)));
}

TEST_F(BackOffTest, OffIsOffAtOnce) {
  Look(100);
  back_off_.SetLimit(std::nullopt);
  EXPECT_EQ(back_off_.share(), 1);
  EXPECT_FALSE(back_off_.Due(now_ + absl::Hours(1)));
  Look(100);
  EXPECT_EQ(back_off_.share(), 1);
  back_off_.SetLimit(50);
  EXPECT_TRUE(back_off_.Due(now_));
  Look(49);
  EXPECT_EQ(back_off_.share(), 1);
  Look(51);
  EXPECT_EQ(back_off_.share(), 0.5);
}

// Whatever comes, in whatever order.
TEST(BackOffProperties, StaysInBoundsAndMovesTheRightWay) {
  std::mt19937 random(7);
  absl::Time now = absl::FromUnixSeconds(0);
  BackOff back_off(25);
  for (int i = 0; i < 100000; ++i) {
    const double before = back_off.share();
    now += absl::Milliseconds(1000 + random() % 3000);
    const double pressure = random() % 101;
    back_off.Note(pressure, now);
    ASSERT_GE(back_off.share(), BackOff::kLeast);
    ASSERT_LE(back_off.share(), 1);
    if (pressure > 25) {
      ASSERT_EQ(back_off.share(), std::max(before / 2, BackOff::kLeast));
    } else {
      ASSERT_TRUE(back_off.share() > before || before == 1);
    }
  }
}

}  // namespace
}  // namespace hugepool
