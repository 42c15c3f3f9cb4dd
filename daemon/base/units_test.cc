#include "daemon/base/units.h"

#include <gtest/gtest.h>

namespace hugepool {
namespace {

TEST(Bytes, PrintsTheLargestUnitThatDivides) {
  EXPECT_EQ(ToString(Bytes(0)), "0 B");
  EXPECT_EQ(ToString(Bytes(17)), "17 B");
  EXPECT_EQ(ToString(KiB(1536)), "1536 KiB");
  EXPECT_EQ(ToString(MiB(2)), "2 MiB");
  EXPECT_EQ(ToString(GiB(3)), "3 GiB");
}

TEST(Bytes, ParsesUnitsAsPowersOf1024) {
  EXPECT_EQ(*ParseBytes("4096"), Bytes(4096));
  EXPECT_EQ(*ParseBytes("512K"), KiB(512));
  EXPECT_EQ(*ParseBytes(" 2MiB "), MiB(2));
  EXPECT_EQ(*ParseBytes("1g"), GiB(1));
  EXPECT_EQ(*ParseBytes("1 GB"), GiB(1));
  EXPECT_EQ(*ParseBytes("2T"), GiB(2048));
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* bad : {"", "G", "-1", "1X", "1GiBs", "1.5G", "99999999999T",
                          "18446744073709551616"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(PageSize, OnlyPowersOfTwoOfAtLeast4K) {
  EXPECT_FALSE(PageSize::FromBytes(Bytes(0)).has_value());
  EXPECT_FALSE(PageSize::FromBytes(Bytes(2048)).has_value());
  EXPECT_FALSE(PageSize::FromBytes(MiB(3)).has_value());
  EXPECT_EQ(*PageSize::FromBytes(MiB(2)), k2M);
  EXPECT_EQ(*PageSize::FromBytes(GiB(1)), k1G);
}

TEST(PageSize, CeilRoundsUpAndRefusesOverflow) {
  EXPECT_EQ(*k2M.Ceil(Bytes(0)), PageCount(0));
  EXPECT_EQ(*k2M.Ceil(Bytes(1)), PageCount(1));
  EXPECT_EQ(*k2M.Ceil(MiB(2) + Bytes(1)), PageCount(2));
  EXPECT_FALSE(k2M.Ceil(Bytes(uint64_t{1} << 63)).has_value());
  EXPECT_FALSE(k2M.Ceil(Bytes(~uint64_t{0})).has_value());
}

}  // namespace
}  // namespace hugepool
