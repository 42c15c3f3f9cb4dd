// From what an operator wrote to the pools of this host.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_EXPAND_POOLS_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_EXPAND_POOLS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/units.h"
#include "daemon/server/config/config.h"

namespace hugepool::server {

// What the kernel has on a node of one page size.
struct HostPages {
  PageSize size;
  PageCount total;  // nr_hugepages
  // Free, or in an extent of ours already (after a restart): what `max` means.
  PageCount available;
};

struct HostNode {
  NodeId id;
  Bytes memory;         // all of the node's memory, huge pages included
  bool allowed = true;  // within this process's Mems_allowed (N14)
  std::vector<HostPages> sizes;
};

// One pool: its amounts in pages of its size.
struct ResolvedPool {
  NodeId node;
  PageSize page_size;
  PageCount target;
  PageCount low;   // <= high
  PageCount high;  // <= target
  // Ascending. Where auto_shapes: those to begin with.
  std::vector<PageCount> shapes;
  bool auto_shapes = true;
  // By how much the target is above what the kernel has. With kernel_pages off
  // these pages never come, which the caller should tell; else they are to be
  // added.
  PageCount beyond_kernel;

  friend bool operator==(const ResolvedPool&, const ResolvedPool&) = default;
};

// The pools by ascending node, on each by descending page size: the order in
// which their locks are taken. Pure.
//
// INVALID_ARGUMENT with every error, as from ParseConfig: a page size that the
// kernel does not offer (lists those it does), a node that does not exist or is
// not allowed (lists those that are), and where the daemon manages the kernel's
// counters, huge pages beyond kernel_pages.max_percent of a node's memory
// (N30).
absl::StatusOr<std::vector<ResolvedPool>> ExpandPools(
    const Config& config, const std::vector<HostNode>& nodes);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_EXPAND_POOLS_H_
