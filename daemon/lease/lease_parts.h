// Releasing parts of leases, without a lock.
#ifndef HUGEPOOL_DAEMON_LEASE_LEASE_PARTS_H_
#define HUGEPOOL_DAEMON_LEASE_LEASE_PARTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/read_guard.h"
#include "daemon/base/units.h"
#include "daemon/lease/types.h"
#include "daemon/pool/host.h"
#include "daemon/reclaim/deferred_queue.h"

namespace hugepool {

// A part of a segment.
struct ReleaseRange {
  uint32_t segment = 0;
  Bytes offset;
  Bytes size;
};

// What a release of ranges has to know of one lease. Immutable but for the
// notes of released pages, which are lock-free. Thread-safe.
class LeaseParts {
 public:
  // The queue of a pool's node.
  using QueueOf = std::function<DeferredQueue*(const Pool&)>;
  // Pools whose extents became queued, which may want to look.
  using Queued = std::set<const Pool*>;

  LeaseParts(const Lease& lease, const Host& host, const QueueOf& queue_of);
  ~LeaseParts();
  LeaseParts(const LeaseParts&) = delete;
  LeaseParts& operator=(const LeaseParts&) = delete;

  LeaseId id() const { return id_; }
  const Identity& owner() const { return owner_; }
  Lifetime lifetime() const { return lifetime_; }

  // Notes all pages of `ranges` as given up; their bytes. BAD_REQUEST where a range
  // is not whole pages of a segment or overlaps another; FAILED_PRECONDITION where
  // one was released before; nothing is noted then. ABORTED where two calls release
  // the same page at the same time: the later one finds out when it has noted the
  // rest.
  absl::StatusOr<Bytes> Release(const std::vector<ReleaseRange>& ranges,
                                absl::Time now, Queued* queued) const;
  // The lease has ended: what was deferred of it leaves the queues.
  void End() const;

 private:
  struct Part {
    uint32_t segment = 0;
    Bytes offset;  // in the segment
    Bytes size;
    PageSize page_size = k2M;
    ExtentId extent;
    Pool* pool = nullptr;
    DeferredQueue* queue = nullptr;
    // Made by the first release of a page of it; a reference of ours.
    mutable std::atomic<DeferredExtent*> deferred{nullptr};
  };
  // Pages of one part.
  struct Pages {
    const Part* part = nullptr;
    PageCount first;
    PageCount count;
  };

  absl::StatusOr<std::vector<Pages>> Resolve(
      const std::vector<ReleaseRange>& ranges) const;
  absl::Status ResolveOne(const ReleaseRange& range,
                          std::vector<Pages>* pages) const;
  DeferredExtent& DeferredOf(const Part& part) const;

  const LeaseId id_;
  const Identity owner_;
  const Lifetime lifetime_;
  std::unique_ptr<Part[]> parts_;  // by segment, then by offset
  size_t count_ = 0;
};

// Finds the parts of leases by id, without a lock for those who look.
//
// Thread-safe for readers. Writers, which publish and remove, are serialised by
// the lock of the books (LeaseManager::mu_).
class PartsIndex {
 public:
  PartsIndex() = default;

  // Good until `scope` ends; nullptr: there is no such lease.
  const LeaseParts* Find(LeaseId id, const ReadGuard::Scope& scope) const;
  ReadGuard& guard() const { return guard_; }

  void Publish(std::shared_ptr<const LeaseParts> parts);
  // Ends it, and forgets it; false: it was not published.
  bool Remove(LeaseId id);
  // Frees what no reader can have any more; after something was removed, which is
  // often enough: what publishing retires is no more than the leases there are.
  // Not under a lock.
  void Collect() { guard_.Collect(); }

 private:
  // Few leases share one.
  static constexpr size_t kBuckets = 1024;
  using Bucket = std::vector<std::shared_ptr<const LeaseParts>>;
  static size_t IndexOf(LeaseId id) { return id.value() % kBuckets; }

  mutable ReadGuard guard_;
  std::array<GuardedPtr<const Bucket>, kBuckets> buckets_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_LEASE_PARTS_H_
