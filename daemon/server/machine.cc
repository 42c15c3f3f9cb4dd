#include "daemon/server/machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/errno_status.h"
#include "daemon/server/config/expand_pools.h"

namespace hugepool::server {
namespace {

// On the shmem backend "pages" are parts of ordinary memory: a pool of each
// usual size of at most an eighth of a node's memory.
constexpr uint64_t kShmemShare = 8;

// More than the caches hold, and less than a tenth of a second of zeroing.
constexpr Bytes kCalibrationSpan = MiB(64);

// As far as the published tables of parallel clearing go, which gain all the way
// (docs/performance.md). How many of them are used is found out while working.
constexpr int kMaxWorkers = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<Machine>> Machine::Find(const Config& config) {
  std::unique_ptr<Machine> m(new Machine);
  HP_ASSIGN_OR_RETURN(m->topology_, sys::LinuxTopology::Read());
  m->kernel_ = std::make_unique<sys::SysfsKernelPools>();
  bool any = false;
  for (const sys::NodeInfo& node : m->topology_->nodes()) {
    for (PageSize size : m->kernel_->page_sizes()) {
      auto counters = m->kernel_->Read(node.id, size);
      if (counters.ok() && counters->total > PageCount(0)) any = true;
    }
  }
  const bool may_grow = config.kernel_pages.mode != KernelPagesMode::kOff;
  switch (config.backend) {
    case Backend::kShmem:
      m->shmem_ = true;
      break;
    case Backend::kHugetlb:
      break;
    case Backend::kAuto:
      m->shmem_ = m->kernel_->page_sizes().empty() || (!any && !may_grow);
      break;
  }
  if (!m->shmem_ && m->kernel_->page_sizes().empty()) {
    return absl::FailedPreconditionError(
        "this kernel offers no huge pages (no hugepages-* under "
        "/sys/kernel/mm/hugepages); use backend: shmem");
  }
  m->memory_ = std::make_unique<sys::RealHugeMemory>(
      m->shmem_ ? sys::Backend::kShmem : sys::Backend::kHugetlb);
  m->memory_->SelfTest();
  return m;
}

std::vector<NodeId> Machine::NodesWithMemory() const {
  std::vector<NodeId> nodes;
  for (const sys::NodeInfo& n : topology_->nodes()) {
    if (n.allowed) nodes.push_back(n.id);
  }
  return nodes;
}

// Measuring is a help, not a need: where it cannot be done the most promising
// routine is taken.
absl::StatusOr<RoutineRate> Machine::ChooseStoresFor(const Config& config,
                                                     NodeId node) {
  std::vector<RoutineRate> rates;
  if (config.zeroing.stores == "auto") {
    sys::RealHugeMemory memory(sys::Backend::kShmem);
    auto file = memory.Create(k2M, k2M.Floor(kCalibrationSpan), node);
    if (file.ok() && (*file)->Map(node).ok() &&
        (*file)->Populate(Bytes(0), kCalibrationSpan).ok()) {
      rates =
          MeasureStores((*file)->data(), kCalibrationSpan, *Clock::Real());
    }
  }
  HP_ASSIGN_OR_RETURN(const StoreRoutine* const chosen,
                      ChooseStores(config.zeroing.stores, rates));
  if (!rates.empty()) return rates.front();
  return RoutineRate{.routine = chosen};
}

int Machine::WorkerThreads(const Config& config, const sys::NodeInfo& node) {
  if (config.zeroing.threads.has_value()) {
    return std::max(1, static_cast<int>(*config.zeroing.threads));
  }
  const int cpus = static_cast<int>(node.worker_cpus.size());
  return std::clamp(cpus, 1, kMaxWorkers);
}

// Adds pages to the kernel's pool and reads back what came of it.
absl::Status Machine::Grow(KernelPagesMode mode, const Pool& pool,
                           PageCount target) {
  HP_ASSIGN_OR_RETURN(sys::KernelCounters now,
                      kernel_->Read(pool.node, pool.page_size));
  const bool exact = mode == KernelPagesMode::kExact;
  if (now.total == target || (now.total > target && !exact)) {
    return absl::OkStatus();
  }
  HP_ASSIGN_OR_RETURN(PageCount got,
                      kernel_->SetTotal(pool.node, pool.page_size, target));
  if (got >= target) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the kernel made ", got.value(), " of ", target.value(),
                   " pages"));
}

void Machine::GrowKernelPages(const Config& config,
                              const std::vector<std::unique_ptr<Pool>>& pools,
                              std::vector<std::string>* warnings) {
  if (shmem_ || config.kernel_pages.mode == KernelPagesMode::kOff) return;
  for (const auto& pool : pools) {
    const absl::Status grown = Grow(config.kernel_pages.mode, *pool,
                                    pool->Snapshot().config.target);
    // The pool works with what there is (N47: read-only sysfs).
    if (!grown.ok()) {
      warnings->push_back(absl::StrCat("node ", pool->node.value(), ", ",
                                       ToString(pool->page_size), " pages: ",
                                       grown.message()));
    }
  }
}

absl::StatusOr<std::vector<hugepool::PoolConfig>> Machine::MakePools(
    const Config& config, std::vector<std::string>* warnings) {
  if (shmem_ && config.backend == Backend::kAuto) {
    warnings->push_back(
        "no huge pages are reserved, so ordinary memory is lent; set "
        "nr_hugepages, or kernel_pages: {mode: grow}, and restart");
  }
  std::vector<HostNode> nodes;
  for (const sys::NodeInfo& info : topology_->nodes()) {
    HostNode node;
    node.id = info.id;
    node.memory = info.memory;
    node.allowed = info.allowed;
    if (shmem_) {
      for (PageSize size : {k1G, k2M}) {
        const PageCount pages =
            size.Floor(Bytes(info.memory.value() / kShmemShare));
        node.sizes.push_back({size, pages, pages});
      }
    } else {
      for (PageSize size : kernel_->page_sizes()) {
        auto counters = kernel_->Read(info.id, size);
        if (!counters.ok()) continue;
        node.sizes.push_back({size, counters->total, counters->free});
      }
    }
    nodes.push_back(std::move(node));
  }
  HP_ASSIGN_OR_RETURN(std::vector<ResolvedPool> resolved,
                      ExpandPools(config, nodes));
  std::vector<hugepool::PoolConfig> pools;
  for (const ResolvedPool& r : resolved) {
    if (config.kernel_pages.mode == KernelPagesMode::kOff &&
        r.beyond_kernel > PageCount(0)) {
      warnings->push_back(absl::StrCat(
          "node ", r.node.value(), ": the target of ", r.target.value(),
          " pages of ", ToString(r.page_size), " is ",
          r.beyond_kernel.value(),
          " more than the kernel has; set nr_hugepages, or kernel_pages: "
          "{mode: grow}"));
    }
    hugepool::PoolConfig pool;
    pool.node = r.node;
    pool.page_size = r.page_size;
    pool.target = r.target;
    pool.low = r.low;
    pool.high = r.high;
    pool.shapes = r.shapes;
    pool.learn_shapes = r.auto_shapes;
    pool.let_go = memory_->probe_kind() == sys::ProbeKind::kNone;
    pools.push_back(std::move(pool));
  }
  return pools;
}

}  // namespace hugepool::server
