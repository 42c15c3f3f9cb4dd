#include "daemon/pool/placement.h"

#include <gtest/gtest.h>

#include "daemon/base/refusal.h"

namespace hugepool {
namespace {

using enum RefusalReason;

PageCount P(uint64_t n) { return PageCount(n); }
constexpr NodeId kNode0{0};
constexpr NodeId kNode2{2};
constexpr NodeId kNode5{5};

// Sparse node ids; node 5 has memory but no pool.
const std::vector<PoolFacts> kPools = {
    {kNode0, k1G, P(2)},    // 0
    {kNode0, k2M, P(100)},  // 1
    {kNode2, k2M, P(200)},  // 2
};
const std::vector<NodeId> kNodes = {kNode0, kNode2, kNode5};

SegmentRequest Segment(Bytes size, std::vector<PageSize> sizes = {k2M}) {
  SegmentRequest s;
  s.size = size;
  s.page_sizes = std::move(sizes);
  return s;
}

SegmentRequest On(PlacementMode mode, std::vector<NodeId> nodes,
                  Bytes size = MiB(16)) {
  SegmentRequest s = Segment(size);
  s.mode = mode;
  s.nodes = std::move(nodes);
  return s;
}

auto Resolve(const SegmentRequest& s) {
  return ResolveSegment(s, kPools, kNodes);
}

// The reason, or nothing for a request that can be served.
std::optional<RefusalReason> ReasonOf(const SegmentRequest& s) {
  const auto options = Resolve(s);
  if (options.ok()) return std::nullopt;
  const auto refusal = RefusalOf(options.status());
  EXPECT_TRUE(refusal.has_value()) << options.status();
  return refusal ? refusal->reason : kInternal;
}

std::string HintOf(const SegmentRequest& s) {
  return RefusalOf(Resolve(s).status())->hint;
}

// --- Sizes (N21) ---------------------------------------------------------------

TEST(ResolveSegment, OddSizesAreRoundedUpToPages) {
  EXPECT_EQ(Resolve(Segment(Bytes(1)))->front().pages, P(1));
  EXPECT_EQ(Resolve(Segment(MiB(2)))->front().pages, P(1));
  EXPECT_EQ(Resolve(Segment(MiB(2) + Bytes(1)))->front().pages, P(2));
}

TEST(ResolveSegment, SizesThatCannotBe) {
  EXPECT_EQ(ReasonOf(Segment(Bytes(0))), kBadRequest);
  EXPECT_EQ(ReasonOf(Segment(Bytes(uint64_t{1} << 63))), kNeverFits);
  EXPECT_EQ(ReasonOf(Segment(Bytes(~uint64_t{0}))), kNeverFits);
  EXPECT_EQ(ReasonOf(Segment(MiB(2) * 300)), std::nullopt) << "over two nodes";
  EXPECT_EQ(ReasonOf(Segment(MiB(2) * 301)), kNeverFits);
}

TEST(ResolveSegment, NeverFitsSaysWhatThePoolsHold) {
  const auto refusal = RefusalOf(Resolve(Segment(GiB(2))).status());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->wanted, GiB(2));
  EXPECT_EQ(refusal->available, MiB(600));
  EXPECT_EQ(refusal->hint,
            "pools of 2 MiB pages hold at most: node 0: 200 MiB, node 2: "
            "400 MiB; ask for less, allow other nodes, or raise the target");
}

TEST(ResolveSegment, OneExtentMustFitOneNode) {
  SegmentRequest s = Segment(MiB(2) * 201);
  EXPECT_EQ(ReasonOf(s), std::nullopt);
  s.max_extents = 1;
  EXPECT_EQ(ReasonOf(s), kNeverFits);
  s.size = MiB(2) * 200;
  EXPECT_EQ(ReasonOf(s), std::nullopt);
}

// --- Page sizes ------------------------------------------------------------------

TEST(ResolveSegment, UnknownPageSizesListThoseThereAre) {
  const SegmentRequest s = Segment(MiB(2), {PageSize::FromShift(16)});
  EXPECT_EQ(ReasonOf(s), kUnknownPageSize);
  EXPECT_EQ(Resolve(s).status().message(),
            "there is no pool of pages of 64 KiB");
  EXPECT_EQ(HintOf(s), "page sizes with a pool: 1 GiB, 2 MiB");
}

TEST(ResolveSegment, PageSizesAreTriedInTheOrderOfTheRequest) {
  const auto options = Resolve(Segment(MiB(64), {k2M, k1G}));
  ASSERT_TRUE(options.ok());
  ASSERT_EQ(options->size(), 2u);
  EXPECT_EQ((*options)[0].page_size, k2M);
  EXPECT_EQ((*options)[1].page_size, k1G);
  EXPECT_EQ((*options)[1].pages, P(1));
}

TEST(ResolveSegment, WithoutPageSizesThoseThatWasteNothing) {
  const auto gib = Resolve(Segment(GiB(2), {}));
  ASSERT_TRUE(gib.ok());
  EXPECT_EQ(gib->size(), 1u) << "2 GiB of 2 MiB pages never fit";
  EXPECT_EQ(gib->front().page_size, k1G);
  EXPECT_EQ(Resolve(Segment(MiB(6), {}))->front().page_size, k2M);
  EXPECT_EQ(Resolve(Segment(Bytes(1), {}))->front().page_size, k2M);
}

// --- Nodes (N10, N11) ------------------------------------------------------------

TEST(ResolveSegment, ANodeWithoutMemoryListsThoseWith) {
  for (auto mode : {PlacementMode::kBind, PlacementMode::kPrefer,
                    PlacementMode::kInterleave}) {
    const SegmentRequest s = On(mode, {NodeId(1)});
    EXPECT_EQ(ReasonOf(s), kNoSuchNode);
    EXPECT_EQ(Resolve(s).status().message(),
              "node 1 does not exist or has no memory");
    EXPECT_EQ(HintOf(s), "nodes with memory: 0, 2, 5");
  }
}

TEST(ResolveSegment, BindAndPreferNeedNodes) {
  EXPECT_EQ(ReasonOf(On(PlacementMode::kBind, {})), kBadRequest);
  EXPECT_EQ(ReasonOf(On(PlacementMode::kPrefer, {})), kBadRequest);
  EXPECT_EQ(ReasonOf(On(PlacementMode::kInterleave, {})), std::nullopt);
}

TEST(ResolveSegment, BindingToANodeWithoutPagesNeverFitsAndSaysWhereTheyAre) {
  const SegmentRequest s = On(PlacementMode::kBind, {kNode5});
  EXPECT_EQ(ReasonOf(s), kNeverFits);
  EXPECT_NE(HintOf(s).find("node 0: 200 MiB, node 2: 400 MiB"),
            std::string::npos);
  EXPECT_EQ(ReasonOf(On(PlacementMode::kPrefer, {kNode5})), std::nullopt);
}

TEST(ResolveSegment, BindIsStrictAndPreferIsNot) {
  EXPECT_EQ(Resolve(On(PlacementMode::kBind, {kNode0}))->front().pools,
            std::vector<size_t>{1});
  const auto prefer = Resolve(On(PlacementMode::kPrefer, {kNode0}));
  EXPECT_EQ(prefer->front().pools, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(prefer->front().preferred, std::vector<size_t>{1});
  EXPECT_EQ(ReasonOf(On(PlacementMode::kBind, {kNode0}, MiB(202))), kNeverFits);
  EXPECT_EQ(ReasonOf(On(PlacementMode::kPrefer, {kNode0}, MiB(202))),
            std::nullopt);
}

TEST(ResolveSegment, InterleavingNeedsAnExtentForEachNode) {
  SegmentRequest s = On(PlacementMode::kInterleave, {kNode0, kNode2});
  s.max_extents = 1;
  EXPECT_EQ(ReasonOf(s), kNeverFits) << "it would wait in vain";
  s.size = MiB(2);
  EXPECT_EQ(ReasonOf(s), std::nullopt) << "a single page is on one node";
  s.size = MiB(16);
  s.max_extents = 2;
  EXPECT_EQ(ReasonOf(s), std::nullopt);
}

// --- Placing -----------------------------------------------------------------------

// "node pages" of each extent, in order.
std::string Place(const SegmentRequest& s, std::vector<ShapeCounts> stock,
                  uint32_t limit = 100) {
  const auto options = Resolve(s);
  EXPECT_TRUE(options.ok()) << options.status();
  const auto before = stock;
  const auto plan = PlaceSegment(options->front(), limit, stock);
  if (!plan) {
    EXPECT_EQ(stock, before) << "a failed plan takes nothing";
    return "none";
  }
  PageCount taken;
  std::string out;
  for (const PlannedExtent& e : *plan) {
    taken += e.pages;
    out += std::to_string(kPools[e.pool].node.value()) + ":" +
           std::to_string(e.pages.value()) + " ";
  }
  for (size_t i = 0; i < stock.size(); ++i) {
    taken += TotalPages(stock[i]);
    taken -= TotalPages(before[i]);
  }
  EXPECT_EQ(taken, P(0)) << "what is planned is taken from the stock";
  out.pop_back();
  return out;
}

TEST(PlaceSegment, AnyIsWhereMostIsCleanNotNodeZero) {
  const SegmentRequest any = Segment(MiB(8));
  EXPECT_EQ(Place(any, {{}, {{P(4), 1}}, {{P(4), 2}}}), "2:4");
  EXPECT_EQ(Place(any, {{}, {{P(4), 3}}, {{P(4), 2}}}), "0:4");
  EXPECT_EQ(Place(any, {{}, {}, {{P(1), 4}}}), "2:1 2:1 2:1 2:1");
}

TEST(PlaceSegment, OneNodeIfOneHasEnoughElseSeveral) {
  const SegmentRequest any = Segment(MiB(16));
  EXPECT_EQ(Place(any, {{}, {{P(4), 1}, {P(1), 4}}, {{P(16), 1}}}),
            "0:4 0:1 0:1 0:1 0:1");
  EXPECT_EQ(Place(any, {{}, {{P(1), 4}}, {{P(4), 1}, {P(1), 1}}}),
            "2:4 2:1 0:1 0:1 0:1");
  EXPECT_EQ(Place(any, {{}, {{P(1), 3}}, {{P(4), 1}}}), "none");
}

TEST(PlaceSegment, BindTakesNothingFromElsewhere) {
  const SegmentRequest s = On(PlacementMode::kBind, {kNode0}, MiB(8));
  EXPECT_EQ(Place(s, {{}, {{P(1), 3}}, {{P(4), 9}}}), "none");
  EXPECT_EQ(Place(s, {{}, {{P(1), 4}}, {{P(4), 9}}}), "0:1 0:1 0:1 0:1");
}

TEST(PlaceSegment, PreferTakesTheListedNodeThoughOthersHaveMore) {
  const SegmentRequest s = On(PlacementMode::kPrefer, {kNode0}, MiB(8));
  EXPECT_EQ(Place(s, {{}, {{P(4), 1}}, {{P(4), 9}}}), "0:4");
  EXPECT_EQ(Place(s, {{}, {}, {{P(4), 9}}}), "2:4");
  EXPECT_EQ(Place(s, {{}, {{P(1), 2}}, {{P(1), 2}}}), "0:1 0:1 2:1 2:1");
}

TEST(PlaceSegment, InterleaveDealsOutEvenSharesInTurn) {
  const SegmentRequest s =
      On(PlacementMode::kInterleave, {kNode0, kNode2}, MiB(12));
  EXPECT_EQ(Place(s, {{}, {{P(1), 9}}, {{P(1), 9}}}),
            "0:1 2:1 0:1 2:1 0:1 2:1");
  EXPECT_EQ(Place(s, {{}, {{P(1), 9}}, {{P(1), 2}}}), "none");
  const SegmentRequest odd =
      On(PlacementMode::kInterleave, {kNode0, kNode2}, MiB(6));
  EXPECT_EQ(Place(odd, {{}, {{P(2), 1}}, {{P(1), 1}}}), "0:2 2:1");
}

TEST(PlaceSegment, InterleaveKeepsToTheNumberOfExtents) {
  SegmentRequest s = On(PlacementMode::kInterleave, {kNode0, kNode2}, MiB(8));
  s.max_extents = 2;
  EXPECT_EQ(Place(s, {{}, {{P(1), 9}}, {{P(1), 9}}}), "none");
  EXPECT_EQ(Place(s, {{}, {{P(2), 1}}, {{P(2), 1}}}), "0:2 2:2");
  s.size = MiB(2);
  s.max_extents = 1;
  EXPECT_EQ(Place(s, {{}, {{P(1), 9}}, {{P(1), 9}}}), "0:1");
}

TEST(PlaceSegment, KeepsToTheLeasesLimitAsWell) {
  const SegmentRequest any = Segment(MiB(8));
  EXPECT_EQ(Place(any, {{}, {}, {{P(1), 4}}}, 3), "none");
  EXPECT_EQ(Place(any, {{}, {}, {{P(1), 4}}}, 4), "2:1 2:1 2:1 2:1");
  EXPECT_EQ(Place(any, {{}, {}, {{P(4), 4}}}, 0), "none");
}

// --- Where a waiting request's pages are made ------------------------------------------

std::string Spread(const SegmentRequest& s, std::vector<PageCount> capacity) {
  const auto before = capacity;
  const auto spread = SpreadDemand(Resolve(s)->front(), capacity);
  if (!spread) {
    EXPECT_EQ(capacity, before);
    return "none";
  }
  std::string out;
  for (const auto& [pool, pages] : *spread) {
    EXPECT_EQ(capacity[pool], before[pool] - pages);
    out += std::to_string(kPools[pool].node.value()) + ":" +
           std::to_string(pages.value()) + " ";
  }
  out.pop_back();
  return out;
}

TEST(SpreadDemand, OneNodeElseSeveral) {
  const SegmentRequest any = Segment(MiB(16));
  EXPECT_EQ(Spread(any, {P(0), P(100), P(200)}), "2:8");
  EXPECT_EQ(Spread(any, {P(0), P(3), P(5)}), "2:5 0:3");
  EXPECT_EQ(Spread(any, {P(0), P(3), P(4)}), "none");
}

TEST(SpreadDemand, FollowsTheMode) {
  EXPECT_EQ(Spread(On(PlacementMode::kPrefer, {kNode0}), {P(0), P(8), P(99)}),
            "0:8");
  EXPECT_EQ(Spread(On(PlacementMode::kBind, {kNode0}), {P(0), P(7), P(99)}),
            "none");
  EXPECT_EQ(Spread(On(PlacementMode::kInterleave, {}), {P(0), P(99), P(99)}),
            "0:4 2:4");
  EXPECT_EQ(Spread(On(PlacementMode::kInterleave, {}), {P(0), P(3), P(99)}),
            "none");
}

}  // namespace
}  // namespace hugepool
