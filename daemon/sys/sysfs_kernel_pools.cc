#include "daemon/sys/sysfs_kernel_pools.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/sysfs.h"

namespace hugepool::sys {
namespace {

constexpr char kHostPools[] = "/kernel/mm/hugepages";
constexpr char kNodes[] = "/devices/system/node";
// Above it a count is one that went below zero (N6).
constexpr uint64_t kUnderflow = uint64_t{1} << 63;

std::vector<PageSize> SizesOf(const std::string& directory) {
  std::vector<PageSize> sizes;
  for (const std::string& name : ListDirectory(directory)) {
    absl::string_view digits = name;
    uint64_t kib = 0;
    if (!absl::ConsumePrefix(&digits, "hugepages-") ||
        !absl::ConsumeSuffix(&digits, "kB") ||
        !absl::SimpleAtoi(digits, &kib) || kib >= uint64_t{1} << 50) {
      continue;
    }
    const auto size = PageSize::FromBytes(KiB(kib));
    if (size.has_value()) sizes.push_back(*size);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  return sizes;
}

std::vector<NodeId> NodesOf(const std::string& directory) {
  std::vector<NodeId> nodes;
  for (const std::string& name : ListDirectory(directory)) {
    uint32_t id = 0;
    if (absl::StartsWith(name, "node") &&
        absl::SimpleAtoi(name.substr(4), &id)) {
      nodes.emplace_back(id);
    }
  }
  return nodes;
}

}  // namespace

SysfsKernelPools::SysfsKernelPools(std::string sysfs_root)
    : root_(std::move(sysfs_root)),
      sizes_(SizesOf(root_ + kHostPools)),
      numa_(!NodesOf(root_ + kNodes).empty()) {}

std::string SysfsKernelPools::Directory(NodeId node, PageSize size) const {
  const std::string pool =
      absl::StrCat("/hugepages-", size.bytes().value() >> 10, "kB");
  if (!numa_ && node == NodeId(0)) return absl::StrCat(root_, kHostPools, pool);
  return absl::StrCat(root_, kNodes, "/node", node.value(), "/hugepages", pool);
}

absl::StatusOr<KernelCounters> SysfsKernelPools::Read(NodeId node,
                                                      PageSize size) const {
  const std::string dir = Directory(node, size);
  HP_ASSIGN_OR_RETURN(const uint64_t total, ReadNumber(dir + "/nr_hugepages"));
  HP_ASSIGN_OR_RETURN(const uint64_t free, ReadNumber(dir + "/free_hugepages"));
  HP_ASSIGN_OR_RETURN(const uint64_t surplus,
                      ReadNumber(dir + "/surplus_hugepages"));
  HP_ASSIGN_OR_RETURN(const uint64_t reserved,
                      ReadNumber(absl::StrCat(root_, kHostPools, "/hugepages-",
                                              size.bytes().value() >> 10,
                                              "kB/resv_hugepages")));
  KernelCounters counters;
  const auto sane = [&counters](uint64_t n) {
    if (n < kUnderflow) return PageCount(n);
    counters.anomaly = true;
    return PageCount(0);
  };
  counters.total = sane(total);
  counters.free = sane(free);
  counters.surplus = sane(surplus);
  counters.reserved = sane(reserved);
  return counters;
}

absl::StatusOr<PageCount> SysfsKernelPools::SetTotal(NodeId node, PageSize size,
                                                     PageCount pages) {
  const std::string path = Directory(node, size) + "/nr_hugepages";
  const std::string text = absl::StrCat(pages.value());
  const auto it = writable_.find({node, size});
  if (it == writable_.end()) {
    HP_RETURN_IF_ERROR(WriteSmallFile(path, text));
  } else if (pwrite(it->second.get(), text.data(), text.size(), 0) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("write(", path, ")"));
  }
  HP_ASSIGN_OR_RETURN(const uint64_t now, ReadNumber(path));
  return PageCount(now);
}

absl::Status SysfsKernelPools::OpenForWriting() {
  std::vector<NodeId> nodes = NodesOf(root_ + kNodes);
  if (!numa_) nodes.emplace_back(0);
  absl::Status status;
  for (const NodeId node : nodes) {
    for (const PageSize size : sizes_) {
      const std::string path = Directory(node, size) + "/nr_hugepages";
      UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (fd.valid()) {
        writable_[{node, size}] = std::move(fd);
      } else {
        status.Update(ErrnoToStatus(errno, absl::StrCat("open(", path, ")")));
      }
    }
  }
  return status;
}

}  // namespace hugepool::sys
