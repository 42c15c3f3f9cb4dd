// Which node's memory is nearest.
#ifndef HUGEPOOL_CLIENT_INTERNAL_NEAREST_MEMORY_H_
#define HUGEPOOL_CLIENT_INTERNAL_NEAREST_MEMORY_H_

#include <map>
#include <string>

#include "daemon/base/units.h"

namespace hugepool::client {

// A snapshot of sysfs. Thread-safe (const).
class NearestMemory {
 public:
  explicit NearestMemory(
      const std::string& nodes_dir = "/sys/devices/system/node");

  // The node itself where it has memory, or where the kernel does not say (no
  // NUMA, a container without /sys); else the nearest that has some, by the
  // kernel's distances. Such a node has CPUs only (N15).
  NodeId To(NodeId node) const;

 private:
  std::map<NodeId, NodeId> nearest_;  // of those without memory
};

// The node that the calling thread runs on, by getcpu(2), or the nearest with
// memory where that has none. A hint: the thread can be moved at any time. Node
// 0 where the kernel cannot tell.
NodeId LocalNode();

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_NEAREST_MEMORY_H_
