// What a pool should have made next for those who wait. Pure functions.
#ifndef HUGEPOOL_DAEMON_POOL_DEMAND_PLAN_H_
#define HUGEPOOL_DAEMON_POOL_DEMAND_PLAN_H_

#include <map>
#include <vector>

#include "daemon/base/units.h"
#include "daemon/extent/ids.h"
#include "daemon/pool/compose.h"

namespace hugepool {

// A waiting request's part in one pool.
struct Demand {
  LeaseId lease;      // of the lease that it will become
  uint64_t sequence;  // order of arrival, across pools
  DomainId domain;
  PageCount pages;
  uint32_t max_extents = 0;  // 0: no limit
  // Pages that later requests took while this one waited.
  PageCount bypassed;
  // What of them the holder will touch first. Heeded where one extent is made
  // for all of them.
  Bytes hot;
  // It will be filled at once: what is made for it needs no pages yet.
  bool bare = false;
};

// How many pages later requests may take in total while one waits: as many as
// the waiter itself wants. So the wait of a large request at most doubles, and
// the pool behind it does not idle meanwhile. Small waiters are served at once
// anyway; the floor keeps a one-page waiter from blocking every other request.
inline constexpr PageCount kMinBypass{16};
inline PageCount BypassLeft(const Demand& d) {
  const PageCount bound = d.pages > kMinBypass ? d.pages : kMinBypass;
  return d.bypassed >= bound ? PageCount(0) : bound - d.bypassed;
}

// The pool as the planner sees it. Counts are consumed by planning.
struct DemandView {
  PageCount budget;  // pages that may be populated now
  PageCount coming;  // pages on their way back to the kernel
  std::map<DomainId, ShapeCounts> clean;  // domain 0: for anybody
  std::map<LeaseId, ShapeCounts> bare;    // each for one demand
  ShapeCounts populating;
  std::vector<PageCount> shapes;
};

struct DemandStep {
  enum class Kind {
    kNothing,    // everybody can be served from what is clean
    kWait,       // somebody must wait for memory that is on its way, or leased
    kBuild,      // make an extent of `pages`, growing a clean one of `from`
    kDismantle,  // give a clean extent of `pages` of `domain` back
  };
  Kind kind = Kind::kNothing;
  PageCount pages;
  PageCount from;  // 0: from nothing
  DomainId domain;
  Bytes hot;  // kBuild: what its holder will touch first
  LeaseId bare_for;  // kBuild: without pages, for this demand
};

// The first step that helps the first demand that needs one. A demand that has
// been bypassed as much as allowed keeps the budget for itself. Clean extents are
// given up only where that, with what is coming, is enough: otherwise they would
// be made and given up in turn for ever.
DemandStep PlanDemands(DemandView view, const std::vector<Demand>& demands);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_DEMAND_PLAN_H_
