#include "client/hpctl/parse.h"

#include <algorithm>
#include <string>
#include <vector>

#include "client/hpctl/allocation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::hpctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseTest, Nodes) {
  EXPECT_THAT(*ParseNodes("0"), ElementsAre(NodeId(0)));
  EXPECT_THAT(*ParseNodes("5,0-2,1"),
              ElementsAre(NodeId(0), NodeId(1), NodeId(2), NodeId(5)));
  EXPECT_EQ(ParseNodes("local")->size(), 1u);
  for (const char* bad : {"", ",", "a", "3-1", "0-", "-1", "0-1-2", "99999",
                          "0,,1", "4294967296"}) {
    EXPECT_FALSE(ParseNodes(bad).ok()) << bad;
  }
}

TEST(ParseTest, Sizes) {
  EXPECT_EQ(ParseSizeAtNodes("4G")->size, GiB(4));
  EXPECT_THAT(ParseSizeAtNodes("4G")->nodes, IsEmpty());
  const auto at = ParseSizeAtNodes("512m@1,3");
  EXPECT_EQ(at->size, MiB(512));
  EXPECT_THAT(at->nodes, ElementsAre(NodeId(1), NodeId(3)));
  for (const char* bad : {"", "G", "-1", "1.5G", "0", "1X", "4G@", "4G@x",
                          "99999999999999999999"}) {
    EXPECT_FALSE(ParseSizeAtNodes(bad).ok()) << bad;
  }
}

TEST(ParseTest, PageSizes) {
  EXPECT_THAT(*ParsePageSizes("1G,2M"), ElementsAre(k1G, k2M));
  EXPECT_FALSE(ParsePageSizes("3M").ok());
  EXPECT_FALSE(ParsePageSizes("").ok());
}

TEST(ParseTest, Waits) {
  EXPECT_EQ(*ParseWait("500ms"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseWait("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseWait("3"), absl::Seconds(3));
  EXPECT_EQ(*ParseWait("0"), absl::ZeroDuration());
  for (const char* bad : {"", "5x", "-1s", "inf", "nan", "99999999h"}) {
    EXPECT_FALSE(ParseWait(bad).ok()) << bad;
  }
}

TEST(ParseTest, LabelsLifetimesStates) {
  EXPECT_EQ(*ParseLabel("a=b=c"),
            std::make_pair(std::string("a"), std::string("b=c")));
  EXPECT_EQ(ParseLabel("a=")->second, "");
  EXPECT_FALSE(ParseLabel("=b").ok());
  EXPECT_FALSE(ParseLabel("ab").ok());
  EXPECT_EQ(*ParseLifetime("memory"), v1::LIFETIME_MEMORY);
  EXPECT_FALSE(ParseLifetime("unspecified").ok());
  EXPECT_FALSE(ParseLifetime("").ok());
  EXPECT_EQ(*ParseLeaseState("returning"), v1::LEASE_STATE_RETURNING);
  EXPECT_FALSE(ParseLeaseState("gone").ok());
}

// The request that `args` mean, or the error.
absl::StatusOr<v1::AcquireRequest> Build(std::vector<std::string> args) {
  CLI::App app;
  AllocationFlags flags;
  AddAllocationFlags(&app, &flags);
  std::reverse(args.begin(), args.end());
  try {
    app.parse(std::move(args));
  } catch (const CLI::Error& e) {
    return absl::InvalidArgumentError(e.what());
  }
  return BuildAcquireRequest(flags, v1::LIFETIME_SESSION);
}

TEST(AllocationTest, CopyOfALease) {
  const auto whole = Build({"--size", "4G", "--copy-from", "lease-1"});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->segments(0).copy_from().lease_id(), "lease-1");
  EXPECT_EQ(whole->segments(0).copy_from().offset(), 0u);
  const auto part = Build({"--size", "4G", "--copy-from", "lease-1@2M"});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->segments(0).copy_from().offset(), MiB(2).value());
  EXPECT_FALSE(
      Build({"--size", "4G", "--size", "2G", "--copy-from", "lease-1"}).ok());
  EXPECT_FALSE(Build({"--size", "4G", "--copy-from", "lease-1@far"}).ok());
  EXPECT_FALSE(Build({"--size", "4G"})->segments(0).has_copy_from());
}

TEST(AllocationTest, Segments) {
  const auto request =
      Build({"--size", "4G@1", "--size=2G", "--page-size", "1G,2M", "--prefer",
             "0", "--single-fd", "--hot", "64K"});
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->segments_size(), 2);
  const v1::Segment& first = request->segments(0);
  EXPECT_EQ(first.size_bytes(), GiB(4).value());
  EXPECT_EQ(first.placement().mode(), v1::PLACEMENT_MODE_BIND);
  EXPECT_THAT(first.placement().nodes(), ElementsAre(1));
  EXPECT_THAT(first.page_sizes(), ElementsAre(GiB(1).value(), MiB(2).value()));
  EXPECT_EQ(first.max_extents(), 1u);
  EXPECT_EQ(first.hot_offset(), KiB(64).value());
  const v1::Segment& second = request->segments(1);
  EXPECT_EQ(second.placement().mode(), v1::PLACEMENT_MODE_PREFER);
  EXPECT_THAT(second.placement().nodes(), ElementsAre(0));
}

TEST(AllocationTest, TheRest) {
  const auto request =
      Build({"--size", "1G", "--interleave", "all", "--wait", "1500ms",
             "--name", "db", "--ttl", "1h", "--seal-shrink", "--private",
             "--reopenable", "--label", "a=b", "--label", "c=d"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->segments(0).placement().mode(),
            v1::PLACEMENT_MODE_INTERLEAVE);
  EXPECT_EQ(request->segments(0).placement().nodes_size(), 0);
  EXPECT_EQ(request->max_wait().seconds(), 1);
  EXPECT_EQ(request->max_wait().nanos(), 500'000'000);
  EXPECT_EQ(request->lifetime(), v1::LIFETIME_NAMED);
  EXPECT_EQ(request->name(), "db");
  EXPECT_EQ(request->time_to_live().seconds(), 3600);
  EXPECT_TRUE(request->sealed());
  EXPECT_TRUE(request->private_());
  EXPECT_TRUE(request->reopenable());
  EXPECT_EQ(request->labels().at("a"), "b");
  EXPECT_EQ(request->labels().at("c"), "d");
}

TEST(AllocationTest, Refusals) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"--size"},
      {"--size", "0"},
      {"--size", "1G", "extra"},
      {"--size", "1G", "--bind", "0", "--prefer", "1"},
      {"--size", "1G", "--bind", "x"},
      {"--size", "1G", "--lifetime", "forever"},
      {"--size", "1G", "--lifetime", "named"},
      {"--size", "1G", "--lifetime", "memory", "--name", "n"},
      {"--size", "1G", "--ttl", "1h"},
      {"--size", "1G", "--page-size", "3M"},
      {"--size", "1G", "--label", "x"},
      {"--size", "1G", "--wait", "soon"},
      {"--size", "1G", "--hot", "far"},
  };
  for (const auto& args : bad) {
    EXPECT_EQ(Build(args).status().code(), absl::StatusCode::kInvalidArgument)
        << ::testing::PrintToString(args);
  }
  EXPECT_THAT(std::string(Build({"--size", "1Q"}).status().message()),
              HasSubstr("--size"));
}

TEST(ParseRangeTest, WithAndWithoutASegment) {
  EXPECT_EQ(ParseRange("4M+2M").value(),
            (client::LeaseRange{0, MiB(4), MiB(2)}));
  EXPECT_EQ(ParseRange("0+1GiB").value(),
            (client::LeaseRange{0, MiB(0), GiB(1)}));
  EXPECT_EQ(ParseRange("12:2097152+512K").value(),
            (client::LeaseRange{12, MiB(2), KiB(512)}));
  for (const char* bad :
       {"", "4M", "4M+", "+2M", "4M+0", "4M+2M+2M", "4M+-2M", "-4M+2M",
        ":4M+2M", "x:4M+2M", "-1:4M+2M", "1:2:4M+2M", "4294967296:0+2M",
        "4M-6M", "1:4M", "4Q+2M"}) {
    EXPECT_EQ(ParseRange(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace hugepool::hpctl
