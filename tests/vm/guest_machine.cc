#include "tests/vm/guest_machine.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace hugepool::testing {
namespace {

constexpr char kNodes[] = "/sys/devices/system/node";

std::string Text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// "0-1,4" -> 0 1 4
template <typename T>
std::set<T> Numbers(const std::string& list) {
  std::set<T> numbers;
  for (const std::string& part : std::vector<std::string>(
           absl::StrSplit(list, absl::ByAnyChar(", \n"), absl::SkipEmpty()))) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    T first = 0;
    T last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last)) {
      continue;
    }
    for (T i = first; i <= last; ++i) numbers.insert(i);
  }
  return numbers;
}

std::map<uint64_t, uint64_t> PagesIn(const std::string& node_dir) {
  std::map<uint64_t, uint64_t> pages;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(node_dir + "/hugepages", ignored)) {
    // hugepages-2048kB
    const std::string name = entry.path().filename();
    absl::string_view kib = name;
    uint64_t size = 0;
    uint64_t count = 0;
    if (absl::ConsumePrefix(&kib, "hugepages-") &&
        absl::ConsumeSuffix(&kib, "kB") && absl::SimpleAtoi(kib, &size) &&
        absl::SimpleAtoi(Text(entry.path().string() + "/nr_hugepages"),
                         &count)) {
      pages[size << 10] = count;
    }
  }
  return pages;
}

// The one of `among` with the smallest distance from `from`; `from` itself
// where it is among them.
uint32_t Nearest(const GuestNode& from, uint32_t from_id,
                 const NodeSet& among) {
  if (among.count(from_id) != 0) return from_id;
  uint32_t best = from_id;
  int best_distance = INT32_MAX;
  for (const uint32_t id : among) {
    const auto it = from.distances.find(id);
    if (it == from.distances.end() || it->second >= best_distance) continue;
    best = id;
    best_distance = it->second;
  }
  return best;
}

}  // namespace

GuestMachine GuestMachine::Read() {
  GuestMachine machine;
  const NodeSet online =
      Numbers<uint32_t>(Text(absl::StrCat(kNodes, "/online")));
  const NodeSet memory =
      Numbers<uint32_t>(Text(absl::StrCat(kNodes, "/has_memory")));
  for (const uint32_t id : online) {
    const std::string dir = absl::StrCat(kNodes, "/node", id);
    GuestNode node;
    node.has_memory = memory.count(id) != 0;
    node.cpus = Numbers<int>(Text(dir + "/cpulist"));
    node.pages = PagesIn(dir);
    // One figure for each online node, in the order of their ids.
    std::stringstream distances(Text(dir + "/distance"));
    for (const uint32_t other : online) distances >> node.distances[other];
    machine.nodes[id] = std::move(node);
  }
  return machine;
}

NodeSet GuestMachine::WithMemory() const {
  NodeSet ids;
  for (const auto& [id, node] : nodes) {
    if (node.has_memory) ids.insert(id);
  }
  return ids;
}

NodeSet GuestMachine::WithoutMemory() const {
  NodeSet ids = Numbers<uint32_t>(Text(absl::StrCat(kNodes, "/possible")));
  ids.insert(*ids.rbegin() + 1);
  for (const uint32_t id : WithMemory()) ids.erase(id);
  return ids;
}

uint32_t GuestMachine::MemoryNear(uint32_t node) const {
  return Nearest(nodes.at(node), node, WithMemory());
}

CpuSet GuestMachine::CpusNear(uint32_t node) const {
  NodeSet with_cpus;
  for (const auto& [id, other] : nodes) {
    if (!other.cpus.empty()) with_cpus.insert(id);
  }
  return nodes.at(Nearest(nodes.at(node), node, with_cpus)).cpus;
}

std::multiset<CpuSet> ThreadCpus(pid_t pid, const std::string& name) {
  std::multiset<CpuSet> all;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", pid, "/task"), ignored)) {
    if (Text(task.path().string() + "/comm") != name + "\n") continue;
    pid_t tid = 0;
    cpu_set_t allowed;
    if (!absl::SimpleAtoi(task.path().filename().string(), &tid) ||
        sched_getaffinity(tid, sizeof(allowed), &allowed) != 0) {
      continue;
    }
    CpuSet cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus.insert(cpu);
    }
    all.insert(cpus);
  }
  return all;
}

std::string Join(const NodeSet& nodes) { return absl::StrJoin(nodes, ", "); }

}  // namespace hugepool::testing
