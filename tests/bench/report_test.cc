#include "tests/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace hugepool::bench {
namespace {

using ::testing::HasSubstr;

std::string LastLine(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  const size_t before = text.rfind('\n', end);
  return text.substr(before + 1, end - before);
}

TEST(ReportTest, TheLastLineIsOneJsonObject) {
  Report report("name", "this against that");
  report.Series("hit", "a hit", "us", {3, 1, 2});
  report.Figure("rate", "a rate", "GiB/s", 4.5);
  report.Aim("times faster", 200, Goal::kAtLeast, 150);
  report.Aim("overhead", 1.6, Goal::kAtMost, 1.5);
  std::ostringstream out;
  report.Print(out, true);
  const auto json = nlohmann::json::parse(LastLine(out.str()));
  EXPECT_EQ(json["name"], "name");
  EXPECT_EQ(json["aims"].size(), 2u);
  EXPECT_EQ(json["aims"][0]["met"], true);
  EXPECT_EQ(json["aims"][1]["met"], false);
  EXPECT_EQ(json["aims"][1]["aim"], 1.5);
  EXPECT_EQ(json["hit"]["median"], 2);
  EXPECT_EQ(json["rate"], 4.5);
  EXPECT_FALSE(report.AllMet());
}

TEST(ReportTest, TimesByThreads) {
  Report report("name", "this against that");
  report.Threads("clear", "cleared", 2, {{1, {2e6, 4e6, 6e6}}, {2, {2e6}}});
  std::ostringstream out;
  report.Print(out, true);
  EXPECT_THAT(out.str(), HasSubstr("nthread  speedup  size (GiB)"));
  EXPECT_THAT(out.str(), HasSubstr("2         2.000x       2.000         2.000"));
  const auto json = nlohmann::json::parse(LastLine(out.str()));
  EXPECT_EQ(json["clear"]["1"]["median"], 4e6);
  EXPECT_EQ(json["clear"]["1"]["min"], 2e6);
  EXPECT_NEAR(json["clear"]["1"]["stdev"], 1.633e6, 1e3);
  EXPECT_EQ(json["clear"]["2"]["speedup"], 2);
}

TEST(ReportTest, PeopleGetATable) {
  Report report("name", "this against that");
  report.Series("hit", "a hit", "us", {412.34});
  report.Aim("times faster", 200, Goal::kAtLeast, 150);
  std::ostringstream out;
  report.Print(out, false);
  EXPECT_THAT(out.str(), HasSubstr("412.3"));
  EXPECT_THAT(out.str(), HasSubstr(">= 150.0  met"));
  EXPECT_EQ(out.str().find('{'), std::string::npos);
  EXPECT_TRUE(report.AllMet());
}

}  // namespace
}  // namespace hugepool::bench
