#include "client/internal/nearest_memory.h"

#include <sched.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/sys/sysfs.h"

namespace hugepool::client {
namespace {

// Empty where it cannot be read.
std::set<int> NodeList(const std::string& path) {
  const auto text = sys::ReadSmallFile(path);
  if (!text.ok()) return {};
  const auto list = sys::ParseList(*text);
  if (!list.ok()) return {};
  return std::set<int>(list->begin(), list->end());
}

// The one of `with_memory` with the smallest distance in `row`, which has a
// figure for each of `online` in the order of their ids.
std::optional<int> NearestIn(const std::string& row,
                             const std::set<int>& online,
                             const std::set<int>& with_memory) {
  std::optional<int> best;
  int best_distance = 0;
  auto id = online.begin();
  for (const absl::string_view part :
       absl::StrSplit(row, ' ', absl::SkipEmpty())) {
    int distance = 0;
    if (id == online.end() || !absl::SimpleAtoi(part, &distance)) break;
    if (with_memory.contains(*id) &&
        (!best.has_value() || distance < best_distance)) {
      best = *id;
      best_distance = distance;
    }
    ++id;
  }
  return best;
}

NodeId Id(int id) { return NodeId(static_cast<uint32_t>(id)); }

}  // namespace

NearestMemory::NearestMemory(const std::string& nodes_dir) {
  const std::set<int> online = NodeList(nodes_dir + "/online");
  const std::set<int> with_memory = NodeList(nodes_dir + "/has_memory");
  for (const int id : online) {
    if (with_memory.contains(id)) continue;
    const auto row =
        sys::ReadSmallFile(absl::StrCat(nodes_dir, "/node", id, "/distance"));
    if (!row.ok()) continue;
    const std::optional<int> nearest = NearestIn(*row, online, with_memory);
    if (nearest.has_value()) nearest_[Id(id)] = Id(*nearest);
  }
}

NodeId NearestMemory::To(NodeId node) const {
  const auto it = nearest_.find(node);
  return it != nearest_.end() ? it->second : node;
}

NodeId LocalNode() {
  unsigned cpu = 0;
  unsigned node = 0;
  if (getcpu(&cpu, &node) != 0) return NodeId(0);
  // Read once: memory seldom comes to a node while a program runs.
  static const auto* const nearest = new NearestMemory();
  return nearest->To(NodeId(node));
}

}  // namespace hugepool::client
