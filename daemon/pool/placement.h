// From a request to candidate pools and from stock to a plan. Pure: no locks,
// no pools, only their indices and counts.
#ifndef HUGEPOOL_DAEMON_POOL_PLACEMENT_H_
#define HUGEPOOL_DAEMON_POOL_PLACEMENT_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/units.h"
#include "daemon/pool/compose.h"
#include "daemon/pool/request.h"

namespace hugepool {

// A pool as placement sees it; its index in the vector is its name.
struct PoolFacts {
  NodeId node;
  PageSize page_size = k2M;
  PageCount capacity;
};

// One way to serve a segment: a page size and the pools that may give it.
struct SegmentOption {
  PageSize page_size = k2M;
  PageCount pages;
  std::vector<size_t> pools;      // candidates
  std::vector<size_t> preferred;  // PREFER: the listed ones among them
  PlacementMode mode = PlacementMode::kAny;
  uint32_t max_extents = 0;  // 0: no limit
};

// All ways to serve a segment, in order of preference, those that can never
// fit left out. Errors: BAD_REQUEST (size 0, BIND without nodes),
// UNKNOWN_PAGE_SIZE, NO_SUCH_NODE, NEVER_FITS (too large, or interleaved over
// more nodes than extents are allowed); each lists what there is.
absl::StatusOr<std::vector<SegmentOption>> ResolveSegment(
    const SegmentRequest& segment, const std::vector<PoolFacts>& pools,
    const std::vector<NodeId>& nodes_with_memory);

// One extent of a plan.
struct PlannedExtent {
  size_t pool = 0;
  PageCount pages;
};

// Picks extents for one option out of `stock` (by pool index), which it takes
// them from. nullopt, and the stock unchanged, where it does not suffice. At
// most `extent_limit` extents.
std::optional<std::vector<PlannedExtent>> PlaceSegment(
    const SegmentOption& option, uint32_t extent_limit,
    std::vector<ShapeCounts>& stock);

// Where a waiting option's pages shall be made: pages by pool, by what the pools
// can hold at most (`capacity`, consumed). nullopt: they cannot.
std::optional<std::vector<std::pair<size_t, PageCount>>> SpreadDemand(
    const SegmentOption& option, std::vector<PageCount>& capacity);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_PLACEMENT_H_
