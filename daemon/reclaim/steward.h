// One thread a node that takes work from the node's pools, has it done, and
// settles it.
#ifndef HUGEPOOL_DAEMON_RECLAIM_STEWARD_H_
#define HUGEPOOL_DAEMON_RECLAIM_STEWARD_H_

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/pool/pool.h"
#include "daemon/reclaim/deferred_queue.h"
#include "daemon/reclaim/extent_worker.h"
#include "daemon/sys/topology.h"

namespace hugepool {

// Thread-safe. Executes, never decides: which work comes first is the pools'
// business, and between pools that of what they say they need: quick work of any
// pool, then building for those who wait, then for pools under their low
// watermark, then for the rest, in turns where the need is the same.
class Steward {
 public:
  struct Deps {
    std::vector<Pool*> pools;  // of this node
    // nullptr: the memory is not the kernel's huge pages (shmem), so their
    // counters say nothing about it.
    const sys::KernelPools* kernel;
    const Clock* clock;
    // Called with what settling changed, on the steward's thread, no lock held.
    std::function<void(PoolNews)> news;
    ExtentWorker::Deps worker;
    std::vector<int> cpus;  // to run on; empty: anywhere
    // Extents of these pools of which parts were released; nullptr: none.
    DeferredQueue* deferred = nullptr;
  };

  explicit Steward(Deps deps);
  ~Steward();

  void Start();
  // Finishes the item at hand and ends the thread. Idempotent.
  void Stop();
  // There may be work. Cheap, never blocks long.
  void Wake();

  // Does one item, after what has to be retired for it; false: there was none. For
  // tests without a thread.
  bool Step();

 private:
  void Run();
  bool AnybodyWaits() const;
  std::optional<sys::KernelCounters> ReadKernel(const Pool& pool) const;
  bool Do(Pool& pool, std::optional<WorkItem> item);
  // Whether its waiting copies shall be filled (Pool::LetFill).
  void DecideFilling(Pool& pool);
  bool BuildFor(Pool& pool);
  // At most one item, for the pool that needs it most.
  bool Build();
  // Gives released pages back, where a pool is short of what nothing else brings.
  bool Split();
  bool SplitOne(DeferredQueue::Item& item);
  bool IsOld(absl::Time since) const;
  // At most one item of what takes microseconds.
  bool DoQuickWork();

  const Deps deps_;
  ExtentWorker worker_;
  size_t turn_ = 0;  // whose turn it is to build, where the need is the same

  Mutex mu_;
  CondVar wake_;
  bool woken_ HP_GUARDED_BY(mu_) = false;
  bool stop_ HP_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_STEWARD_H_
