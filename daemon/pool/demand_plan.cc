#include "daemon/pool/demand_plan.h"

#include <algorithm>
#include <optional>

namespace hugepool {
namespace {

ShapeCounts Usable(const DemandView& view, const Demand& demand) {
  ShapeCounts usable;
  for (const auto& [d, counts] : view.clean) {
    if (d.valid() && d != demand.domain) continue;
    for (const auto& [shape, n] : counts) usable[shape] += n;
  }
  if (auto bare = view.bare.find(demand.lease); bare != view.bare.end()) {
    for (const auto& [shape, n] : bare->second) usable[shape] += n;
  }
  return usable;
}

// Takes one extent of `shape` that serves `demand`: what was made for it first.
bool TakeUsable(DemandView& view, const Demand& demand, PageCount shape) {
  auto bare = view.bare.find(demand.lease);
  if (bare != view.bare.end() && TakeOne(bare->second, shape)) return true;
  for (DomainId d : {demand.domain, DomainId()}) {
    auto it = view.clean.find(d);
    if (it != view.clean.end() && TakeOne(it->second, shape)) return true;
  }
  return false;
}

// A clean extent to give up so that `shortage` pages become free: another
// domain's first (it serves nobody else), the smallest that is enough, else the
// largest.
std::optional<DemandStep> Victim(const DemandView& view, DomainId domain,
                                 PageCount shortage) {
  const auto pick = [&](DomainId d) -> std::optional<DemandStep> {
    auto it = view.clean.find(d);
    if (it == view.clean.end() || it->second.empty()) return std::nullopt;
    PageCount best = it->second.begin()->first;
    for (const auto& [shape, n] : it->second) {
      if (shape >= shortage) best = shape;  // shapes descend
    }
    return DemandStep{
        DemandStep::Kind::kDismantle, best, PageCount(0), d, Bytes(0), {}};
  };
  for (const auto& [d, counts] : view.clean) {
    if (!d.valid() || d == domain) continue;
    if (auto step = pick(d)) return step;
  }
  if (auto step = pick(DomainId())) return step;
  return pick(domain);
}

// The largest clean extent for anybody that is smaller than `piece`: to be
// grown, so that only the difference must be populated.
PageCount GrowthBase(const DemandView& view, PageCount piece) {
  auto it = view.clean.find(DomainId());
  if (it == view.clean.end()) return PageCount(0);
  for (const auto& [shape, n] : it->second) {
    if (shape < piece && n > 0) return shape;
  }
  return PageCount(0);
}

bool IsShape(const DemandView& view, PageCount piece) {
  return std::find(view.shapes.begin(), view.shapes.end(), piece) !=
         view.shapes.end();
}

PageCount AllClean(const DemandView& view) {
  PageCount sum;
  for (const auto& [domain, counts] : view.clean) sum += TotalPages(counts);
  return sum;
}

// One demand: consumes what it can use; a step, or nullopt to look at the next.
std::optional<DemandStep> PlanOne(DemandView& view, const Demand& demand,
                                  bool& somebody_waits) {
  if (auto whole = Compose(demand.pages, demand.max_extents,
                           Usable(view, demand))) {
    for (PageCount shape : *whole) TakeUsable(view, demand, shape);
    return std::nullopt;
  }
  std::vector<PageCount> missing;
  for (PageCount piece :
       IdealPieces(demand.pages, demand.max_extents, view.shapes)) {
    if (TakeUsable(view, demand, piece)) continue;
    if (TakeOne(view.populating, piece)) continue;
    missing.push_back(piece);
  }
  for (PageCount piece : missing) {
    const PageCount base = demand.bare || IsShape(view, piece)
                               ? PageCount(0)
                               : GrowthBase(view, piece);
    const PageCount need = piece - base;
    if (need <= view.budget) {
      return DemandStep{DemandStep::Kind::kBuild, piece, base, DomainId(),
                        piece == demand.pages ? demand.hot : Bytes(0),
                        demand.bare ? demand.lease : LeaseId()};
    }
    const PageCount shortage = need - view.budget;
    if (shortage <= view.coming) {
      DemandStep step;
      step.kind = DemandStep::Kind::kWait;
      return step;
    }
    // What is to be grown is no victim, nor does it count as one.
    if (base.value() > 0) TakeOne(view.clean[DomainId()], base);
    if (shortage <= view.coming + AllClean(view)) {
      if (auto victim = Victim(view, demand.domain, shortage - view.coming)) {
        return victim;
      }
    }
    if (base.value() > 0) ++view.clean[DomainId()][base];
  }
  somebody_waits = true;
  // Nothing helps but a return, or what is being populated. Those behind may use the budget as long as this
  // one may be bypassed.
  if (BypassLeft(demand).value() == 0) view.budget = PageCount(0);
  return std::nullopt;
}

}  // namespace

DemandStep PlanDemands(DemandView view, const std::vector<Demand>& demands) {
  bool somebody_waits = false;
  for (const Demand& d : demands) {
    if (auto step = PlanOne(view, d, somebody_waits)) return *step;
  }
  DemandStep step;
  if (somebody_waits) step.kind = DemandStep::Kind::kWait;
  return step;
}

}  // namespace hugepool
