// All pools of the host: placement, several segments taken together or not at
// all, and the order among those who wait.
#ifndef HUGEPOOL_DAEMON_POOL_HOST_H_
#define HUGEPOOL_DAEMON_POOL_HOST_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/pool/placement.h"
#include "daemon/pool/pool.h"
#include "daemon/pool/request.h"

namespace hugepool {

// Thread-safe. Lock order: wait_mu_, then pools by index. Nothing is done under
// the locks but bookkeeping.
class Host {
 public:
  struct Limits {
    // Descriptors of one lease. Enough for 512 GiB of GiB extents; a client
    // maps each, and vm.max_map_count is 65,530.
    uint32_t max_extents_per_lease = 512;
    uint32_t max_waiters = 4096;
  };

  Host(const std::vector<PoolConfig>& pools,
       std::vector<NodeId> nodes_with_memory, ExtentTable* table,
       const Limits& limits);

  // All segments together, or a refusal: POOL_SHORT, TOO_MANY_EXTENTS, and
  // ResolveSegment's.
  absl::StatusOr<Taken> Take(const HostRequest& request);

  // The same, but a shortage becomes a place in the queue, under the lease's
  // id. Null: queued.
  absl::StatusOr<std::unique_ptr<Taken>> TakeOrWait(const HostRequest& request);
  // False when it does not wait (any more).
  bool CancelWait(LeaseId lease);
  // Serves waiters, in order, as far as stock and fairness allow. To be called
  // when stock grew or a waiter left.
  struct Served {
    LeaseId lease;
    Taken taken;
  };
  std::vector<Served> ServeWaiters();

  struct WaitView {
    LeaseId lease;
    Bytes wanted;
    Bytes available;  // clean, or there already of what is being built
    uint32_t position = 0;
  };
  std::vector<WaitView> Waits() const;

  // Everything refused with DRAINING from now on, or no more.
  void SetDraining(bool draining) {
    // relaxed: a request beside it may be judged either way.
    draining_.store(draining, std::memory_order_relaxed);
  }
  // Clean memory that is out of stock for a moment, because it is looked at.
  Bytes Verifying() const;

  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  const std::vector<std::unique_ptr<Pool>>& pools() const { return pools_; }
  // nullptr: there is none.
  Pool* Find(NodeId node, PageSize page_size) const;
  // The pool that gave an extent, also when its slot serves another by now.
  Pool& PoolOf(const TakenExtent& extent) const;
  const ExtentTable& table() const { return *table_; }

  absl::Status CheckInvariants() const;

 private:
  struct Waiter {
    HostRequest request;
    std::vector<std::vector<SegmentOption>> options;
    uint64_t sequence = 0;
  };
  // Several pools locked in the order of their indices.
  class LockSet;
  // One segment's plan.
  struct SegmentPlan {
    const SegmentOption* option;
    std::vector<PlannedExtent> extents;
  };

  absl::StatusOr<std::vector<std::vector<SegmentOption>>> Resolve(
      const HostRequest& request) const;
  std::vector<size_t> Candidates(
      const std::vector<std::vector<SegmentOption>>& options) const;
  absl::StatusOr<Taken> TakeWithLocks(
      const HostRequest& request,
      const std::vector<std::vector<SegmentOption>>& options,
      const std::vector<size_t>& locked, uint64_t sequence, bool hit);
  absl::StatusOr<std::vector<SegmentPlan>> Plan(
      const HostRequest& request,
      const std::vector<std::vector<SegmentOption>>& options,
      const std::vector<size_t>& locked) const;
  absl::Status Short(const HostRequest& request,
                     const std::vector<std::vector<SegmentOption>>& options,
                     const std::vector<ShapeCounts>& stock) const;
  Taken Commit(const HostRequest& request,
               const std::vector<SegmentPlan>& plan, uint64_t sequence,
               bool hit);
  void EnqueueDemands(const Waiter& waiter);

  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<PoolFacts> facts_;
  const std::vector<NodeId> nodes_with_memory_;
  ExtentTable* const table_;
  const Limits limits_;
  std::atomic<bool> draining_{false};
  // Order of arrival. relaxed: only uniqueness and rough order matter.
  std::atomic<uint64_t> next_sequence_{1};

  mutable Mutex wait_mu_;
  std::map<uint64_t, Waiter> waiters_ HP_GUARDED_BY(wait_mu_);  // by sequence
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_HOST_H_
