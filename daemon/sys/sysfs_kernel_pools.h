// KernelPools from sysfs.
#ifndef HUGEPOOL_DAEMON_SYS_SYSFS_KERNEL_POOLS_H_
#define HUGEPOOL_DAEMON_SYS_SYSFS_KERNEL_POOLS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/sys/topology.h"

namespace hugepool::sys {

// The sizes are those of the directories hugepages-*kB when it was made; the
// counters are read anew each time. On a kernel without NUMA node 0 has the
// host's counters. Thread-safe.
class SysfsKernelPools : public KernelPools {
 public:
  explicit SysfsKernelPools(std::string sysfs_root = "/sys");

  const std::vector<PageSize>& page_sizes() const override { return sizes_; }
  absl::StatusOr<KernelCounters> Read(NodeId node,
                                      PageSize size) const override;

  // The errno of a refusal stays in the status: EROFS in a container or under
  // ProtectKernelTunables (N47), EACCES without privilege, EINVAL where a size
  // cannot be changed (N59). Fewer pages than asked is no error: read it back.
  absl::StatusOr<PageCount> SetTotal(NodeId node, PageSize size,
                                     PageCount pages) override;

  // Opens every nr_hugepages for writing, so that SetTotal works after the
  // privilege to open them was given up. The first failure; what could be
  // opened stays open. To be called before other threads use this.
  absl::Status OpenForWriting();

 private:
  std::string Directory(NodeId node, PageSize size) const;

  const std::string root_;
  const std::vector<PageSize> sizes_;
  const bool numa_;
  std::map<std::pair<NodeId, PageSize>, UniqueFd> writable_;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_SYSFS_KERNEL_POOLS_H_
