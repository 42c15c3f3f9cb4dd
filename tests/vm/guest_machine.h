// The guest as its kernel describes it: what the daemon's own picture is
// compared with, and so read by other code than the daemon's.
#ifndef HUGEPOOL_TESTS_VM_GUEST_MACHINE_H_
#define HUGEPOOL_TESTS_VM_GUEST_MACHINE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hugepool::testing {

using NodeSet = std::set<uint32_t>;
using CpuSet = std::set<int>;

struct GuestNode {
  bool has_memory = false;
  CpuSet cpus;
  std::map<uint32_t, int> distances;   // to every online node
  std::map<uint64_t, uint64_t> pages;  // nr_hugepages by page size in bytes
};

struct GuestMachine {
  std::map<uint32_t, GuestNode> nodes;  // those that are online, by their ids

  static GuestMachine Read();
  NodeSet WithMemory() const;
  // Ids up to one above the highest possible, without those with memory: nodes
  // that nobody can get memory from.
  NodeSet WithoutMemory() const;
  // The node itself where it has memory, else the nearest that has.
  uint32_t MemoryNear(uint32_t node) const;
  // The node's CPUs, or those of the nearest node with CPUs.
  CpuSet CpusNear(uint32_t node) const;
};

// The CPUs that the threads of `pid` called `name` may run on, one set a
// thread.
std::multiset<CpuSet> ThreadCpus(pid_t pid, const std::string& name);

// "1, 2"
std::string Join(const NodeSet& nodes);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_VM_GUEST_MACHINE_H_
