// Which shapes a pool keeps in stock.
#ifndef HUGEPOOL_DAEMON_POOL_SHAPE_PLAN_H_
#define HUGEPOOL_DAEMON_POOL_SHAPE_PLAN_H_

#include <map>
#include <vector>

#include "daemon/base/units.h"
#include "daemon/pool/compose.h"

namespace hugepool {

// The shapes of `shapes: auto` before anything was learned: single pages, what
// makes 32 MiB (a typical program's heap step) and what makes 1 GiB (one page
// table, so that it can be shared) — for 2M pages 1, 16 and 512; for 1G pages
// and larger just 1.
std::vector<PageCount> DefaultShapes(PageSize page_size);

// Remembers for which single extents clients ask, so that a host whose VMs all
// want 48 GiB in one descriptor has them ready. Deterministic: "time" is the
// number of requests. Not thread-safe.
class ShapeLearner {
 public:
  // A request for `pages` in one descriptor.
  void Note(PageCount pages);
  // At most two shapes, those asked for most, each at least three times within
  // the last 64 requests or so.
  std::vector<PageCount> Learned() const;

 private:
  // Halved every kHalfLife requests, so that old habits fade.
  static constexpr int kHalfLife = 32;
  static constexpr int kMaxShapes = 16;
  std::map<PageCount, double> weight_;
  int since_halving_ = 0;
};

// How many extents of each shape to have out of `pages` pages of stock: one of
// each learned shape that takes at most half, then of each shape, largest
// first, as many as leave an eighth for the smaller ones (at least one where it
// fits), and the smallest takes the rest.
ShapeCounts PlanShapes(PageCount pages, const std::vector<PageCount>& shapes,
                       const std::vector<PageCount>& learned);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_SHAPE_PLAN_H_
