// Real memory and the daemon's own engine, without a daemon: what the benches of
// zeroing measure.
#ifndef HUGEPOOL_TESTS_BENCH_MEMORY_RIG_H_
#define HUGEPOOL_TESTS_BENCH_MEMORY_RIG_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "daemon/base/units.h"
#include "daemon/clear/calibration.h"
#include "daemon/clear/node_workers.h"
#include "daemon/sys/real_huge_memory.h"

namespace hugepool::bench {

// One extent, mapped and populated, on the first node that has pages. Ends the
// process with a message where there are none.
class MemoryRig {
 public:
  MemoryRig(PageSize page_size, Bytes bytes);

  sys::HugeFile& file() { return *file_; }
  std::byte* data() const { return file_->data(); }
  Bytes size() const { return size_; }
  // CPUs that serve the node.
  const std::vector<int>& cpus() const { return cpus_; }
  // Gives every page back to the kernel; the file stays mapped.
  void Empty();
  // All of it, with the engine's threads.
  void Populate(NodeWorkers& workers);
  void Zero(NodeWorkers& workers);
  // The span cut in equal parts, one a thread, one call of the routine each: the
  // most that user space can do.
  void RawZero(const StoreRoutine& stores, int threads);

 private:
  sys::RealHugeMemory memory_{sys::Backend::kHugetlb};
  std::vector<int> cpus_;
  Bytes size_;
  std::unique_ptr<sys::HugeFile> file_;
};

// 1, 2, 4 … up to the CPUs, at most 16.
std::vector<int> ThreadCounts(const MemoryRig& rig);

// An engine for each of the counts, and one that finds its own.
struct Engines {
  Engines(const MemoryRig& rig, const StoreRoutine* stores);
  std::map<int, std::unique_ptr<NodeWorkers>> fixed;
  std::unique_ptr<NodeWorkers> tuned;
};

}  // namespace hugepool::bench

#endif  // HUGEPOOL_TESTS_BENCH_MEMORY_RIG_H_
