// Which extents to put together for a request. Pure functions over counts.
#ifndef HUGEPOOL_DAEMON_POOL_COMPOSE_H_
#define HUGEPOOL_DAEMON_POOL_COMPOSE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/base/units.h"

namespace hugepool {

// How many extents there are of each shape (pages an extent), largest first.
using ShapeCounts = std::map<PageCount, uint32_t, std::greater<>>;

PageCount TotalPages(const ShapeCounts& counts);

// Shapes that add up to `pages` exactly, largest first, at most `max_extents`
// of them (0: no limit), out of `stock`; nullopt where there is no such set
// among those tried: largest-first from each starting shape. That finds a set
// whenever one exists for shapes that divide one another, as the default ones
// do. O(shapes^2).
std::optional<std::vector<PageCount>> Compose(PageCount pages,
                                              uint32_t max_extents,
                                              const ShapeCounts& stock);

// As much of `pages` as `stock` gives, largest first, at most `max_extents`.
std::vector<PageCount> ComposeUpTo(PageCount pages, uint32_t max_extents,
                                   const ShapeCounts& stock);

// The extents that a request of `pages` would best be served with if all had
// to be made: the given shapes largest first, the remainder in one extent where
// `max_extents` does not allow more. Never more than max_extents (if not 0).
std::vector<PageCount> IdealPieces(PageCount pages, uint32_t max_extents,
                                   const std::vector<PageCount>& shapes);

// Takes one extent of `shape` out of the counts; false if there is none.
bool TakeOne(ShapeCounts& counts, PageCount shape);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_COMPOSE_H_
