#include "daemon/pool/demand_plan.h"

#include <gtest/gtest.h>

namespace hugepool {
namespace {

using Kind = DemandStep::Kind;

PageCount P(uint64_t n) { return PageCount(n); }

constexpr DomainId kAnybody;
constexpr DomainId kOurs{1};
constexpr DomainId kTheirs{2};

DemandView View(uint64_t budget) {
  DemandView view;
  view.budget = P(budget);
  view.shapes = {P(8), P(4), P(1)};
  return view;
}

Demand Wants(uint64_t pages, uint32_t max_extents = 0,
             DomainId domain = kOurs) {
  Demand d;
  d.lease = LeaseId(1);
  d.sequence = 1;
  d.domain = domain;
  d.pages = P(pages);
  d.max_extents = max_extents;
  return d;
}

std::string Show(const DemandStep& s) {
  static constexpr const char* kKinds[] = {"nothing", "wait", "build",
                                           "dismantle"};
  std::string out = kKinds[static_cast<int>(s.kind)];
  if (s.pages.value() > 0) out += " " + std::to_string(s.pages.value());
  if (s.from.value() > 0) out += " from " + std::to_string(s.from.value());
  if (s.domain.valid()) out += " of " + std::to_string(s.domain.value());
  return out;
}

std::string Plan(const DemandView& view, const std::vector<Demand>& demands) {
  return Show(PlanDemands(view, demands));
}

TEST(PlanDemands, WhatIsMadeInOnePieceKnowsWhatIsTouchedFirst) {
  Demand one = Wants(5, 1);
  one.hot = MiB(7);
  EXPECT_EQ(PlanDemands(View(10), {one}).hot, MiB(7));
  Demand parts = Wants(9);
  parts.hot = MiB(7);
  EXPECT_EQ(PlanDemands(View(10), {parts}).hot, Bytes(0));
}

TEST(BypassLeft, AsMuchAsTheWaiterWantsItself) {
  Demand d = Wants(100);
  EXPECT_EQ(BypassLeft(d), P(100));
  d.bypassed = P(99);
  EXPECT_EQ(BypassLeft(d), P(1));
  d.bypassed = P(100);
  EXPECT_EQ(BypassLeft(d), P(0));
  d.bypassed = P(1000);
  EXPECT_EQ(BypassLeft(d), P(0));
}

TEST(BypassLeft, HasAFloorSoThatASmallOneBlocksNobody) {
  EXPECT_EQ(BypassLeft(Wants(1)), kMinBypass);
}

TEST(PlanDemands, NothingToDoWithoutDemandsOrWhereStockIsThere) {
  EXPECT_EQ(Plan(View(10), {}), "nothing");
  DemandView view = View(0);
  view.clean[kAnybody] = {{P(8), 1}};
  EXPECT_EQ(Plan(view, {Wants(8)}), "nothing");
  view.clean = {{kOurs, {{P(4), 2}}}};
  EXPECT_EQ(Plan(view, {Wants(8)}), "nothing");
}

TEST(PlanDemands, StockIsCountedForOneDemandOnly) {
  DemandView view = View(10);
  view.clean[kAnybody] = {{P(8), 1}};
  EXPECT_EQ(Plan(view, {Wants(8), Wants(8)}), "build 8");
}

TEST(PlanDemands, StockOfAnotherDomainIsNoUse) {
  DemandView view = View(8);
  view.clean[kTheirs] = {{P(8), 1}};
  EXPECT_EQ(Plan(view, {Wants(8)}), "build 8");
}

TEST(PlanDemands, BuildsTheMissingPieces) {
  EXPECT_EQ(Plan(View(40), {Wants(13)}), "build 8");
  DemandView view = View(40);
  view.clean[kAnybody] = {{P(8), 1}};
  EXPECT_EQ(Plan(view, {Wants(13)}), "build 4");
  view.populating = {{P(4), 1}};
  EXPECT_EQ(Plan(view, {Wants(13)}), "build 1");
  view.populating[P(1)] = 1;
  EXPECT_EQ(Plan(view, {Wants(13)}), "wait") << "all of it is under way";
}

TEST(PlanDemands, OneExtentIsBuiltToOrderByGrowingTheLargestSmallerOne) {
  DemandView view = View(6);
  view.clean[kAnybody] = {{P(16), 1}, {P(8), 1}, {P(4), 1}};
  EXPECT_EQ(Plan(view, {Wants(13, 1)}), "build 13 from 8");
}

TEST(PlanDemands, GrowsOnlyWhatServesAnybody) {
  DemandView view = View(13);
  view.clean[kOurs] = {{P(8), 1}};
  EXPECT_EQ(Plan(view, {Wants(13, 1)}), "build 13");
}

TEST(PlanDemands, AShapeIsBuiltAnewAndNotGrown) {
  DemandView view = View(8);
  view.clean[kAnybody] = {{P(4), 1}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "build 8");
}

TEST(PlanDemands, WaitsForWhatIsComingBeforeItGivesUpStock) {
  DemandView view = View(2);
  view.coming = P(6);
  view.clean[kAnybody] = {{P(1), 20}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "wait");
}

TEST(PlanDemands, GivesUpTheSmallestThatIsEnough) {
  DemandView view = View(6);
  view.clean[kAnybody] = {{P(16), 1}, {P(4), 1}, {P(1), 3}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "dismantle 4");
  view.clean[kAnybody] = {{P(1), 3}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "dismantle 1") << "the largest else";
}

TEST(PlanDemands, GivesUpOtherDomainsStockFirstAndItsOwnLast) {
  DemandView view = View(4);
  view.clean = {{kAnybody, {{P(4), 1}}},
                {kOurs, {{P(4), 1}}},
                {kTheirs, {{P(4), 1}}}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "dismantle 4 of 2");
  view.clean.erase(kTheirs);
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "dismantle 4");
  view.clean.erase(kAnybody);
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "dismantle 4 of 1");
}

// Otherwise the same extents would be made and given up in turn for ever.
TEST(PlanDemands, GivesUpNothingWhereThatIsNotEnough) {
  DemandView view = View(2);
  view.coming = P(1);
  view.clean[kAnybody] = {{P(4), 1}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "wait");  // 2 + 1 + 4 < 8
  view.clean[kAnybody] = {{P(4), 1}, {P(1), 1}};
  EXPECT_EQ(Plan(view, {Wants(8, 1)}), "dismantle 4");  // for 5 of 8: the largest
}

// What is grown cannot be given up as well.
TEST(PlanDemands, TheBaseOfAGrowthIsNoVictim) {
  DemandView view = View(1);
  view.clean[kAnybody] = {{P(4), 2}, {P(1), 3}};
  EXPECT_EQ(Plan(view, {Wants(16, 1)}), "wait");  // 1 + 11 < 16
  EXPECT_EQ(Plan(view, {Wants(13, 1)}), "wait");  // 1 + 11 < 13
  view.budget = P(2);
  EXPECT_EQ(Plan(view, {Wants(13, 1)}), "dismantle 4");
  view.clean[kAnybody] = {{P(4), 1}, {P(1), 3}};
  view.budget = P(6);
  EXPECT_EQ(Plan(view, {Wants(13, 1)}), "dismantle 1");
}

TEST(PlanDemands, ALargeWaiterDoesNotIdleThosePages) {
  // 100 cannot be had now: the 8 behind it may use the budget ...
  Demand large = Wants(100);
  EXPECT_EQ(Plan(View(50), {large, Wants(8)}), "build 8");
  // ... which the large one's first pieces get otherwise.
  EXPECT_EQ(Plan(View(50), {large}), "build 8");
}

TEST(PlanDemands, ADemandThatWasPassedEnoughKeepsTheBudget) {
  Demand large = Wants(100, 1);
  EXPECT_EQ(Plan(View(50), {large, Wants(8)}), "build 8");
  large.bypassed = P(100);
  EXPECT_EQ(Plan(View(50), {large, Wants(8)}), "wait");
}

TEST(PlanDemands, ABlockedDemandBehindIsNotForgotten) {
  EXPECT_EQ(Plan(View(0), {Wants(8)}), "wait");
  DemandView view = View(0);
  view.clean[kAnybody] = {{P(8), 1}};
  EXPECT_EQ(Plan(view, {Wants(8), Wants(1)}), "wait");
}

// Simulates the pool: steps are carried out, so that plans must come to rest.
TEST(PlanDemands, ComesToRestAndServesWhateverFitsTheTarget) {
  for (uint64_t want = 1; want <= 32; ++want) {
    for (uint32_t most : {0u, 1u, 2u, 3u}) {
      DemandView view = View(0);
      view.clean = {{kAnybody, {{P(4), 3}, {P(1), 8}}}, {kTheirs, {{P(8), 1}}},
                    {kOurs, {{P(4), 1}}}};  // 32 pages
      int steps = 0;
      while (true) {
        ASSERT_LT(++steps, 200) << want << " in " << most;
        const DemandStep step = PlanDemands(view, {Wants(want, most)});
        if (step.kind == Kind::kNothing) break;
        if (step.kind == Kind::kWait) {
          ASSERT_GT(view.coming, P(0)) << "waits for nothing: " << want
                                       << " in " << most;
          view.budget += view.coming;
          view.coming = P(0);
        } else if (step.kind == Kind::kDismantle) {
          ASSERT_TRUE(TakeOne(view.clean[step.domain], step.pages));
          view.coming += step.pages;
        } else {
          if (step.from.value() > 0) {
            ASSERT_TRUE(TakeOne(view.clean[kAnybody], step.from));
          }
          ASSERT_LE(step.pages - step.from, view.budget);
          view.budget -= step.pages - step.from;
          ++view.clean[kAnybody][step.pages];
        }
      }
    }
  }
}

}  // namespace
}  // namespace hugepool
