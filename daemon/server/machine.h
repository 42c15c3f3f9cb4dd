// The machine as the daemon finds it at start: nodes, kernel pools, and which
// kind of memory is to be lent.
#ifndef HUGEPOOL_DAEMON_SERVER_MACHINE_H_
#define HUGEPOOL_DAEMON_SERVER_MACHINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/clear/calibration.h"
#include "daemon/pool/pool.h"
#include "daemon/server/config/config.h"
#include "daemon/sys/linux_topology.h"
#include "daemon/sys/real_huge_memory.h"
#include "daemon/sys/sysfs_kernel_pools.h"

namespace hugepool::server {

// Owned by the daemon for its whole life. Made before threads start (the
// probe's self-test makes a child process).
class Machine {
 public:
  // Looks around. `backend: auto` takes hugetlb where the kernel offers huge
  // pages and at least one is there or may be made, shmem elsewhere.
  static absl::StatusOr<std::unique_ptr<Machine>> Find(const Config& config);

  // The pools of the configuration on this machine. Changes nothing. Warnings
  // are for people.
  absl::StatusOr<std::vector<hugepool::PoolConfig>> MakePools(
      const Config& config, std::vector<std::string>* warnings);

  // Makes the kernel's counters fit the pools' targets where kernel_pages says
  // so, and reads back what came of it. The pools work with what there is: what
  // failed is a warning.
  void GrowKernelPages(const Config& config,
                       const std::vector<std::unique_ptr<Pool>>& pools,
                       std::vector<std::string>* warnings);

  // How a node's memory is best cleared in place: as configured, or as measured
  // on 64 MiB of it. INVALID_ARGUMENT where this CPU cannot do what is configured.
  static absl::StatusOr<RoutineRate> ChooseStoresFor(const Config& config,
                                                     NodeId node);

  const sys::LinuxTopology& topology() const { return *topology_; }
  sys::KernelPools* kernel() { return kernel_.get(); }
  sys::RealHugeMemory* memory() { return memory_.get(); }
  bool shmem() const { return shmem_; }
  std::vector<NodeId> NodesWithMemory() const;
  // Threads that populate and zero on a node, its steward included.
  static int WorkerThreads(const Config& config, const sys::NodeInfo& node);

 private:
  Machine() = default;
  absl::Status Grow(KernelPagesMode mode, const Pool& pool, PageCount target);

  std::unique_ptr<sys::LinuxTopology> topology_;
  std::unique_ptr<sys::SysfsKernelPools> kernel_;
  std::unique_ptr<sys::RealHugeMemory> memory_;
  bool shmem_ = false;
};

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_MACHINE_H_
