// What the machine is made of, and the kernel's own huge-page counters.
#ifndef HUGEPOOL_DAEMON_SYS_TOPOLOGY_H_
#define HUGEPOOL_DAEMON_SYS_TOPOLOGY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/units.h"

namespace hugepool::sys {

struct NodeInfo {
  NodeId id;
  Bytes memory;           // MemTotal of the node
  std::vector<int> cpus;  // online CPUs; empty for a memory-only node
  // CPUs that serve the node: its own, else those of the nearest node.
  std::vector<int> worker_cpus;
  bool allowed = true;  // within this process's Mems_allowed (N14)
};

// A snapshot at start. Thread-safe (const).
class Topology {
 public:
  virtual ~Topology() = default;
  // Nodes that have memory, by ascending id. Ids can be sparse.
  virtual const std::vector<NodeInfo>& nodes() const = 0;
  virtual Bytes total_memory() const = 0;
};

// The kernel's counters of one node and page size.
struct KernelCounters {
  PageCount total;     // nr_hugepages
  PageCount free;      // free_hugepages
  PageCount surplus;   // surplus_hugepages
  PageCount reserved;  // host-wide (the kernel has no figure per node); a
                       // value near 2^64 is an anomaly and reads as 0 (N6)
  bool anomaly = false;
};

// sysfs. Page sizes come from directory names only, never from /proc/meminfo
// (T9, N41, N60). Thread-safe.
class KernelPools {
 public:
  virtual ~KernelPools() = default;
  // Page sizes that the kernel offers, largest first. Empty: no huge pages.
  virtual const std::vector<PageSize>& page_sizes() const = 0;
  // NOT_FOUND for a node or size without a directory.
  virtual absl::StatusOr<KernelCounters> Read(NodeId node,
                                              PageSize size) const = 0;
  // Writes nr_hugepages of one node and returns what it reads back. Only used
  // with kernel_pages grow or exact.
  virtual absl::StatusOr<PageCount> SetTotal(NodeId node, PageSize size,
                                             PageCount pages) = 0;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_TOPOLOGY_H_
