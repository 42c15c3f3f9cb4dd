// What is asked of all pools together, and what they give.
#ifndef HUGEPOOL_DAEMON_POOL_REQUEST_H_
#define HUGEPOOL_DAEMON_POOL_REQUEST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/units.h"
#include "daemon/extent/extent_table.h"
#include "daemon/extent/ids.h"
#include "daemon/pool/pool.h"

namespace hugepool {

enum class PlacementMode {
  kAny,         // where most is clean, one node if one has enough
  kBind,        // only the listed nodes
  kPrefer,      // the listed nodes first, then any other
  kInterleave,  // evenly over the listed nodes (none listed: all)
};

// Another lease, to begin as a copy of.
struct CopySource {
  LeaseId lease;
  Bytes offset;  // in its segments laid end to end
};

struct SegmentRequest {
  Bytes size;                         // rounded up to the page size
  std::vector<PageSize> page_sizes;   // in order of preference; empty: any
  PlacementMode mode = PlacementMode::kAny;
  std::vector<NodeId> nodes;
  uint32_t max_extents = 0;           // 0: as the pools like
  Bytes hot;                          // what its holder will touch first
  std::optional<CopySource> copy;     // pools do not look at it
};

struct HostRequest {
  std::vector<SegmentRequest> segments;
  GrantTerms terms;
};

// A granted extent, as the lease and the wire show it.
struct TakenExtent {
  SlotId slot;
  ExtentId id;
  uint32_t segment = 0;
  Bytes offset;  // within the segment
  Bytes size;
  PageSize page_size = k2M;
  NodeId node;
  ExtentOrigin origin = ExtentOrigin::kPopulated;
  uint64_t inode = 0;
  bool bare = false;  // it has no pages before it is filled
  Bytes gone{};       // of `size`, given back while it is held
};

struct TakenSegment {
  Bytes granted;
  PageSize page_size = k2M;
};

struct Taken {
  std::vector<TakenExtent> extents;  // by segment, then by offset
  std::vector<TakenSegment> segments;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_REQUEST_H_
