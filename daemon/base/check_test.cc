#include "daemon/base/check.h"

#include <string>

#include <gtest/gtest.h>

namespace hugepool {
namespace {

TEST(Check, NothingHappensWhereItHolds) {
  int evaluated = 0;
  const auto text = [&evaluated] {
    ++evaluated;
    return std::string("unused");
  };
  HP_CHECK(1 + 1 == 2, text());
  EXPECT_EQ(evaluated, 0) << "the text is only made for a failure";
}

TEST(CheckDeathTest, SaysWhereAndWhatAndAborts) {
  EXPECT_DEATH(HP_CHECK(1 + 1 == 3, "sums are right"),
               "check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3: sums are "
               "right");
}

TEST(Check, IsOneStatement) {
  if (true)
    HP_CHECK(true, "no dangling else");
  else
    FAIL();
}

}  // namespace
}  // namespace hugepool
