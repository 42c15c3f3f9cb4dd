#include "tests/bench/memory_rig.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "daemon/sys/linux_topology.h"
#include "daemon/sys/sysfs_kernel_pools.h"

namespace hugepool::bench {
namespace {

constexpr int kMostThreads = 16;

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

}  // namespace

MemoryRig::MemoryRig(PageSize page_size, Bytes bytes) : size_(bytes) {
  const auto topology = sys::LinuxTopology::Read();
  Must(topology.status());
  const sys::SysfsKernelPools kernel;
  for (const sys::NodeInfo& node : (*topology)->nodes()) {
    const auto counters = kernel.Read(node.id, page_size);
    if (!counters.ok() || counters->free < page_size.Floor(bytes)) continue;
    auto file = memory_.Create(page_size, page_size.Floor(bytes), node.id);
    Must(file.status());
    file_ = *std::move(file);
    cpus_ = node.worker_cpus;
    Must(file_->Map(node.id));
    Must(file_->Populate(Bytes(0), size_));
    return;
  }
  Must(absl::ResourceExhaustedError("no node has free huge pages enough"));
}

void MemoryRig::Empty() { Must(file_->Punch(Bytes(0), size_)); }

void MemoryRig::Populate(NodeWorkers& workers) {
  Must(workers.Populate(*file_, {Bytes(0), size_}, Pace::kUrgent));
}

void MemoryRig::Zero(NodeWorkers& workers) {
  Must(workers.Zero(*file_, {Bytes(0), size_}, Pace::kUrgent));
}

void MemoryRig::RawZero(const StoreRoutine& stores, int threads) {
  const uint64_t part = size_.value() / static_cast<uint64_t>(threads);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) {
    others.emplace_back([this, &stores, part, i] {
      stores.zero(data() + part * static_cast<uint64_t>(i), part);
    });
  }
  stores.zero(data(), part);
  for (std::thread& t : others) t.join();
}

std::vector<int> ThreadCounts(const MemoryRig& rig) {
  std::vector<int> counts = {1};
  const int most = std::min(kMostThreads, static_cast<int>(rig.cpus().size()));
  while (counts.back() * 2 <= most) counts.push_back(counts.back() * 2);
  return counts;
}

Engines::Engines(const MemoryRig& rig, const StoreRoutine* stores) {
  NodeWorkers::Options options;
  options.cpus = rig.cpus();
  options.stores = stores;
  for (const int threads : ThreadCounts(rig)) {
    options.threads = threads;
    fixed[threads] = std::make_unique<NodeWorkers>(options);
  }
  options.tune = true;
  tuned = std::make_unique<NodeWorkers>(options);
}

}  // namespace hugepool::bench
