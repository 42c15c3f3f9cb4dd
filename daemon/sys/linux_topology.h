// Topology from sysfs and /proc.
#ifndef HUGEPOOL_DAEMON_SYS_LINUX_TOPOLOGY_H_
#define HUGEPOOL_DAEMON_SYS_LINUX_TOPOLOGY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/sys/topology.h"

namespace hugepool::sys {

// A snapshot. Nodes without memory are left out; ids may be sparse. A node
// without CPUs is served by the CPUs of the nearest node that has some, by the
// kernel's distance table. What a node is follows its memory, never its cpuset
// (N15). CPUs that this process may not run on serve nobody. A kernel without
// NUMA counts as one node 0.
class LinuxTopology : public Topology {
 public:
  struct Roots {
    std::string sysfs = "/sys";
    std::string proc = "/proc";
  };
  static absl::StatusOr<std::unique_ptr<LinuxTopology>> Read(
      const Roots& roots);
  static absl::StatusOr<std::unique_ptr<LinuxTopology>> Read() {
    return Read(Roots());
  }

  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  Bytes total_memory() const override;

 private:
  explicit LinuxTopology(std::vector<NodeInfo> nodes)
      : nodes_(std::move(nodes)) {}

  const std::vector<NodeInfo> nodes_;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_LINUX_TOPOLOGY_H_
