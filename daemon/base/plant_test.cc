#include "daemon/base/plant.h"

#include <gtest/gtest.h>

namespace hugepool {
namespace {

TEST(Plant, NothingIsPlantedUnlessAskedFor) {
  EXPECT_TRUE(PlantDefect("none").ok());
  for (Defect d :
       {Defect::kSkipClear, Defect::kDoubleGrant, Defect::kLosePage,
        Defect::kEarlyClean, Defect::kPunchLive, Defect::kStaleLedger}) {
    EXPECT_FALSE(Planted(d));
  }
}

// Holds in both builds: a test build plants, any other build refuses.
TEST(Plant, PlantsOrRefusesByBuild) {
  const absl::Status planted = PlantDefect("skip-clear");
  EXPECT_EQ(Planted(Defect::kSkipClear), planted.ok());
  EXPECT_FALSE(Planted(Defect::kDoubleGrant));
  EXPECT_FALSE(PlantDefect("no-such-defect").ok());
  EXPECT_TRUE(PlantDefect("none").ok());
  EXPECT_FALSE(Planted(Defect::kSkipClear));
}

}  // namespace
}  // namespace hugepool
