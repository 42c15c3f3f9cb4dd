#include "daemon/sys/linux_topology.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/views.h"
#include "daemon/sys/sysfs.h"

namespace hugepool::sys {
namespace {

struct RawNode {
  Bytes memory;
  std::vector<int> cpus;
  std::vector<int> distances;  // to each node, by ascending id of all nodes
};
// All nodes by id, those without memory too.
using RawNodes = std::map<int, RawNode>;

// "MemTotal:  24064 kB"
absl::StatusOr<Bytes> MemTotal(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  HP_ASSIGN_OR_RETURN(const std::string value, FindField(text, "MemTotal"));
  uint64_t kib = 0;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(value, absl::MaxSplits(' ', 1));
  if (!absl::SimpleAtoi(parts.first, &kib)) {
    return absl::DataLossError(
        absl::StrCat(path, ": MemTotal is '", value, "'"));
  }
  return KiB(kib);
}

absl::StatusOr<std::vector<int>> ReadList(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  auto list = ParseList(text);
  return list.ok() ? list : Annotate(list.status(), path);
}

std::vector<int> ReadDistances(const std::string& path) {
  std::vector<int> distances;
  const auto text = ReadSmallFile(path);
  if (!text.ok()) return distances;
  for (const absl::string_view part :
       absl::StrSplit(*text, ' ', absl::SkipEmpty())) {
    int distance = 0;
    if (!absl::SimpleAtoi(part, &distance)) return {};
    distances.push_back(distance);
  }
  return distances;
}

absl::StatusOr<RawNodes> ReadNodes(const LinuxTopology::Roots& roots) {
  RawNodes nodes;
  const std::string base = roots.sysfs + "/devices/system/node";
  for (const std::string& name : ListDirectory(base)) {
    int id = 0;
    if (!absl::StartsWith(name, "node") ||
        !absl::SimpleAtoi(name.substr(4), &id)) {
      continue;
    }
    const std::string dir = absl::StrCat(base, "/", name);
    RawNode node;
    HP_ASSIGN_OR_RETURN(node.memory, MemTotal(dir + "/meminfo"));
    HP_ASSIGN_OR_RETURN(node.cpus, ReadList(dir + "/cpulist"));
    node.distances = ReadDistances(dir + "/distance");
    nodes[id] = std::move(node);
  }
  if (!nodes.empty()) return nodes;
  RawNode all;
  HP_ASSIGN_OR_RETURN(all.memory, MemTotal(roots.proc + "/meminfo"));
  HP_ASSIGN_OR_RETURN(all.cpus,
                      ReadList(roots.sysfs + "/devices/system/cpu/online"));
  nodes[0] = std::move(all);
  return nodes;
}

// A list of /proc/self/status; nullopt where it has none: all are allowed.
std::optional<std::set<int>> Allowed(const std::string& status,
                                     std::string_view key) {
  const auto value = FindField(status, key);
  if (!value.ok()) return std::nullopt;
  const auto list = ParseList(*value);
  if (!list.ok()) return std::nullopt;
  return std::set<int>(list->begin(), list->end());
}

std::vector<int> Intersect(const std::vector<int>& cpus,
                           const std::optional<std::set<int>>& allowed) {
  if (!allowed.has_value()) return cpus;
  std::vector<int> both;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(both),
               [&](int cpu) { return allowed->contains(cpu); });
  return both;
}

// The CPUs of the nearest node that has some we may use; its own come first,
// a node's distance to itself being the smallest.
std::vector<int> WorkerCpus(const RawNodes& nodes, const RawNode& node,
                            const std::optional<std::set<int>>& allowed) {
  std::vector<int> best = Intersect(node.cpus, allowed);
  if (!best.empty()) return best;
  int best_distance = 0;
  size_t column = 0;
  for (const auto& [id, other] : nodes) {
    const int distance = column < node.distances.size()
                             ? node.distances[column]
                             : 255;  // the kernel's "unreachable"
    ++column;
    std::vector<int> cpus = Intersect(other.cpus, allowed);
    if (cpus.empty()) continue;
    if (best.empty() || distance < best_distance) {
      best = std::move(cpus);
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinuxTopology>> LinuxTopology::Read(
    const Roots& roots) {
  HP_ASSIGN_OR_RETURN(const RawNodes raw, ReadNodes(roots));
  HP_ASSIGN_OR_RETURN(const std::string status,
                      ReadSmallFile(roots.proc + "/self/status"));
  const auto mems = Allowed(status, "Mems_allowed_list");
  const auto cpus = Allowed(status, "Cpus_allowed_list");
  std::vector<NodeInfo> nodes;
  for (const auto& [id, node] : raw) {
    if (node.memory == Bytes(0)) continue;
    nodes.push_back({.id = NodeId(static_cast<uint32_t>(id)),
                     .memory = node.memory,
                     .cpus = node.cpus,
                     .worker_cpus = WorkerCpus(raw, node, cpus),
                     .allowed = !mems.has_value() || mems->contains(id)});
  }
  if (nodes.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no node under ", roots.sysfs, " has memory"));
  }
  return std::unique_ptr<LinuxTopology>(new LinuxTopology(std::move(nodes)));
}

Bytes LinuxTopology::total_memory() const {
  Bytes total;
  for (const NodeInfo& node : nodes_) total += node.memory;
  return total;
}

}  // namespace hugepool::sys
