#include "daemon/server/config/expand_pools.h"

#include <string>
#include <string_view>
#include <vector>

#include "daemon/server/config/load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Two nodes of 64 GiB with numbers that are not in sequence; node 0 has 8 GiB
// of 2M pages and 4 of 1G, node 2 half of that; one page of node 0 is in use.
std::vector<HostNode> TwoNodes() {
  return {
      {.id = NodeId(2),
       .memory = GiB(64),
       .sizes = {{k1G, PageCount(2), PageCount(2)},
                 {k2M, PageCount(2048), PageCount(2048)}}},
      {.id = NodeId(0),
       .memory = GiB(64),
       .sizes = {{k1G, PageCount(4), PageCount(4)},
                 {k2M, PageCount(4096), PageCount(4095)}}},
  };
}

Config Parse(std::string_view text) {
  absl::StatusOr<Config> config = ParseConfig(text, "f.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : Config();
}

std::vector<ResolvedPool> Expand(std::string_view text,
                                 const std::vector<HostNode>& nodes) {
  absl::StatusOr<std::vector<ResolvedPool>> pools =
      ExpandPools(Parse(text), nodes);
  EXPECT_TRUE(pools.ok()) << pools.status();
  return pools.ok() ? *pools : std::vector<ResolvedPool>();
}

std::string Refusal(std::string_view text, const std::vector<HostNode>& nodes) {
  const auto pools = ExpandPools(Parse(text), nodes);
  return pools.ok() ? "ok" : std::string(pools.status().message());
}

TEST(ExpandPools, DefaultTakesAllFreePagesOfEverySizeAndNode) {
  const std::vector<PageCount> small = {PageCount(1), PageCount(16),
                                        PageCount(512)};
  const std::vector<PageCount> large = {PageCount(1)};
  const auto pool = [](uint32_t node, PageSize size, uint64_t pages,
                       uint64_t low, const std::vector<PageCount>& shapes) {
    return ResolvedPool{.node = NodeId(node),
                        .page_size = size,
                        .target = PageCount(pages),
                        .low = PageCount(low),
                        .high = PageCount(pages),
                        .shapes = shapes};
  };
  EXPECT_THAT(
      Expand("", TwoNodes()),
      ElementsAre(pool(0, k1G, 4, 1, large), pool(0, k2M, 4095, 1024, small),
                  pool(2, k1G, 2, 1, large), pool(2, k2M, 2048, 512, small)));
}

TEST(ExpandPools, AmountsInBytesAndShares) {
  const auto pools = Expand(
      "pools:\n"
      "- {page_size: 2M, nodes: [2], target: 1G, low: 3M, high: 50%,\n"
      "   shapes: [4M, 2M]}\n"
      "- {page_size: 1G, target: 80%, low: 1%, high: 1%}\n",
      TwoNodes());
  ASSERT_THAT(pools, SizeIs(3));
  EXPECT_EQ(pools[0].target, PageCount(3));
  EXPECT_EQ(pools[0].low, PageCount(1));
  EXPECT_EQ(pools[0].high, PageCount(1));
  EXPECT_EQ(pools[1].target, PageCount(1));
  EXPECT_EQ(pools[2], (ResolvedPool{.node = NodeId(2),
                                    .page_size = k2M,
                                    .target = PageCount(512),
                                    .low = PageCount(2),
                                    .high = PageCount(256),
                                    .shapes = {PageCount(1), PageCount(2)},
                                    .auto_shapes = false}));
}

TEST(ExpandPools, WatermarksStayInOrderWhateverThereIs) {
  for (uint64_t pages : {0, 1, 2, 3, 99, 100, 101}) {
    std::vector<HostNode> nodes = {
        {.id = NodeId(0),
         .memory = GiB(1000),
         .sizes = {{k2M, PageCount(pages), PageCount(pages)}}}};
    for (const char* marks :
         {"low: 1%, high: 1%", "low: 100%, high: 100%", "low: 33%, high: 34%",
          "low: 20M, high: 40M", "low: 40M, high: 10%", "low: 90%, high: 2M"}) {
      const auto pools =
          Expand("pools: [{page_size: 2M, " + std::string(marks) + "}]", nodes);
      ASSERT_THAT(pools, SizeIs(1));
      EXPECT_LE(pools[0].low, pools[0].high) << marks << pages;
      EXPECT_LE(pools[0].high, pools[0].target) << marks << pages;
      EXPECT_EQ(pools[0].target, PageCount(pages));
    }
  }
}

TEST(ExpandPools, TellsByHowMuchTheKernelHasTooFew) {
  const auto pools =
      Expand("pools: [{page_size: 1G, nodes: [2], target: 5G}]", TwoNodes());
  ASSERT_THAT(pools, SizeIs(1));
  EXPECT_EQ(pools[0].target, PageCount(5));
  EXPECT_EQ(pools[0].beyond_kernel, PageCount(3));
}

TEST(ExpandPools, FirstShapesOfOtherPageSizes) {
  const auto first = [](uint8_t shift) {
    const PageSize size = PageSize::FromShift(shift);
    return Expand("", {{.id = NodeId(0), .sizes = {{size}}}})[0].shapes;
  };
  EXPECT_THAT(first(16),
              ElementsAre(PageCount(1), PageCount(512), PageCount(16384)));
  EXPECT_THAT(first(25), ElementsAre(PageCount(1), PageCount(32)));
  EXPECT_THAT(first(29), ElementsAre(PageCount(1), PageCount(2)));
  EXPECT_THAT(first(34), ElementsAre(PageCount(1)));
}

TEST(ExpandPools, UnknownPageSizeListsThoseOfTheKernel) {
  EXPECT_EQ(Refusal("\npools: [{page_size: 16M}]", TwoNodes()),
            "f.yaml:2: pools[0].page_size: the kernel offers no pages of 16 "
            "MiB, write one of: 1 GiB, 2 MiB");
  EXPECT_EQ(Refusal("", {{.id = NodeId(0)}}),
            "built-in defaults: pools[0].page_size: the kernel offers no huge "
            "pages, enable hugetlb in the kernel or write "
            "'backend: shmem'");
}

TEST(ExpandPools, UnknownNodeListsThoseThatExist) {
  EXPECT_EQ(
      Refusal("pools:\n- {page_size: 2M, nodes: [0, 1]}\n"
              "- {page_size: 4M}\n",
              TwoNodes()),
      "f.yaml:2: pools[0].nodes: node 1 does not exist or has no memory, write "
      "all or some of: 0, 2\n"
      "f.yaml:3: pools[1].page_size: the kernel offers no pages of 4 MiB, "
      "write one of: 1 GiB, 2 MiB");
}

// N14: a node outside of Mems_allowed.
TEST(ExpandPools, NodesThatAreNotAllowed) {
  std::vector<HostNode> nodes = TwoNodes();
  nodes[0].allowed = false;
  EXPECT_EQ(Refusal("pools: [{page_size: 2M, nodes: [2]}]", nodes),
            "f.yaml:1: pools[0].nodes: node 2 is outside of this process's "
            "allowed memory, write all or some of: 0");
  EXPECT_THAT(Expand("pools: [{page_size: 2M}]", nodes), SizeIs(1));
}

TEST(ExpandPools, SizeThatOnlyAnotherNodeHas) {
  std::vector<HostNode> nodes = TwoNodes();
  nodes[0].sizes.erase(nodes[0].sizes.begin());
  EXPECT_EQ(Refusal("pools: [{page_size: 1G, nodes: [0, 2]}]", nodes),
            "f.yaml:1: pools[0].nodes: node 2 has no pages of 1 GiB, remove "
            "it");
  EXPECT_THAT(Expand("pools: [{page_size: 1G}]", nodes), SizeIs(1));
}

// N30: 11 000 pages of 2M on a machine of 23 GiB.
TEST(ExpandPools, RefusesToStarveTheHost) {
  const std::vector<HostNode> nodes = {
      {.id = NodeId(0),
       .memory = GiB(23),
       .sizes = {{k2M, PageCount(0), PageCount(0)},
                 {k1G, PageCount(1), PageCount(1)}}}};
  const std::string pools = "pools: [{page_size: 2M, target: 22000M}]\n";
  for (const std::string mode : {"grow", "exact"}) {
    EXPECT_EQ(Refusal(pools + "kernel_pages: {mode: " + mode + "}", nodes),
              "f.yaml:1: pools[0].target: huge pages would take 23024 MiB of "
              "the 23552 MiB of node 0, more than kernel_pages.max_percent "
              "(50% = 11775 MiB), write a smaller target or raise max_percent");
    EXPECT_EQ(
        Refusal(pools + "kernel_pages: {mode: " + mode + ", max_percent: 98}",
                nodes),
        "ok");
  }
  EXPECT_EQ(Refusal(pools, nodes), "ok");
}

TEST(ExpandPools, WhatTheKernelHasAlreadyIsNotRefused) {
  const std::vector<HostNode> nodes = {
      {.id = NodeId(0),
       .memory = GiB(10),
       .sizes = {{k1G, PageCount(9), PageCount(9)}}}};
  const std::string grow = "kernel_pages: {mode: grow}\n";
  EXPECT_EQ(Refusal(grow + "pools: [{page_size: 1G, target: 9G}]", nodes),
            "ok");
  EXPECT_NE(Refusal(grow + "pools: [{page_size: 1G, target: 10G}]", nodes),
            "ok");
}

TEST(ExpandPools, AbsurdTargetsDoNotOverflow) {
  const std::string text =
      "kernel_pages: {mode: grow}\n"
      "pools: [{page_size: 1G, target: 16777215T}, "
      "{page_size: 2M, target: 16777215T}]";
  EXPECT_NE(Refusal(text, TwoNodes()), "ok");
}

}  // namespace
}  // namespace hugepool::server
