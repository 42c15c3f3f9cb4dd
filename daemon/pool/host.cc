#include "daemon/pool/host.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"

namespace hugepool {

// A set of locks of run-time size is beyond clang's analysis; the functions that
// use it say so one by one.
class Host::LockSet {
 public:
  LockSet(const Host& host, const std::vector<size_t>& pools)
      HP_NO_THREAD_SAFETY_ANALYSIS : host_(host), pools_(pools) {
    for (size_t i : pools_) host_.pools_[i]->mu().Lock();
  }
  ~LockSet() HP_NO_THREAD_SAFETY_ANALYSIS {
    for (auto it = pools_.rbegin(); it != pools_.rend(); ++it) {
      host_.pools_[*it]->mu().Unlock();
    }
  }
  LockSet(const LockSet&) = delete;
  LockSet& operator=(const LockSet&) = delete;

 private:
  const Host& host_;
  const std::vector<size_t>& pools_;  // ascending
};

Host::Host(const std::vector<PoolConfig>& pools,
           std::vector<NodeId> nodes_with_memory, ExtentTable* table,
           const Limits& limits)
    : nodes_with_memory_(std::move(nodes_with_memory)),
      table_(table),
      limits_(limits) {
  for (const PoolConfig& config : pools) {
    pools_.push_back(std::make_unique<Pool>(config, table));
    facts_.push_back({config.node, config.page_size, config.target});
  }
}

Pool* Host::Find(NodeId node, PageSize page_size) const {
  for (const auto& pool : pools_) {
    if (pool->node == node && pool->page_size == page_size) return pool.get();
  }
  return nullptr;
}

Pool& Host::PoolOf(const TakenExtent& extent) const {
  Pool* const pool = Find(extent.node, extent.page_size);
  HP_CHECK(pool != nullptr, "every extent has a pool");
  return *pool;
}

absl::StatusOr<std::vector<std::vector<SegmentOption>>> Host::Resolve(
    const HostRequest& request) const {
  if (draining()) {
    return Refuse(RefusalReason::kDraining, "the daemon gives no new leases",
                  "try again when it has been restarted or undrained");
  }
  if (request.segments.empty()) {
    return Refuse(RefusalReason::kBadRequest, "a request without segments",
                  "ask for at least one segment");
  }
  if (request.segments.size() > limits_.max_extents_per_lease) {
    return Refuse(RefusalReason::kTooManyExtents,
                  absl::StrCat(request.segments.size(), " segments; allowed ",
                               "are ", limits_.max_extents_per_lease),
                  "use several leases");
  }
  std::vector<std::vector<SegmentOption>> options;
  std::vector<PageCount> capacity;
  for (const PoolFacts& f : facts_) capacity.push_back(f.capacity);
  Bytes wanted;
  for (const SegmentRequest& segment : request.segments) {
    HP_ASSIGN_OR_RETURN(
        auto of_segment,
        ResolveSegment(segment, facts_, nodes_with_memory_));
    wanted += of_segment.front().page_size.Of(of_segment.front().pages);
    // Each fits alone; do they fit together?
    bool fits = false;
    for (const SegmentOption& option : of_segment) {
      if (SpreadDemand(option, capacity)) {
        fits = true;
        break;
      }
    }
    if (!fits) {
      return Refuse(
          Refusal{RefusalReason::kNeverFits, wanted, Bytes(0),
                  "ask for less or raise the pools' targets"},
          absl::StrCat("the segments together (", ToString(wanted),
                       " so far) can never be served"));
    }
    options.push_back(std::move(of_segment));
  }
  return options;
}

std::vector<size_t> Host::Candidates(
    const std::vector<std::vector<SegmentOption>>& options) const {
  std::set<size_t> all;
  for (const auto& of_segment : options) {
    for (const SegmentOption& o : of_segment) {
      all.insert(o.pools.begin(), o.pools.end());
    }
  }
  return std::vector<size_t>(all.begin(), all.end());
}

absl::Status Host::Short(
    const HostRequest& request,
    const std::vector<std::vector<SegmentOption>>& options,
    const std::vector<ShapeCounts>& stock) const {
  Refusal refusal{RefusalReason::kPoolShort, {}, {}, ""};
  bool pages_enough = true;
  // What earlier segments leave for the later ones.
  std::vector<PageCount> left;
  for (const ShapeCounts& counts : stock) left.push_back(TotalPages(counts));
  for (const auto& of_segment : options) {
    refusal.wanted +=
        of_segment.front().page_size.Of(of_segment.front().pages);
    const SegmentOption* best = nullptr;
    PageCount best_pages;
    for (const SegmentOption& o : of_segment) {
      PageCount pages;
      for (size_t i : o.pools) pages += left[i];
      pages = std::min(pages, o.pages);
      if (best == nullptr ||
          o.page_size.Of(pages) > best->page_size.Of(best_pages)) {
        best = &o;
        best_pages = pages;
      }
    }
    refusal.available += best->page_size.Of(best_pages);
    if (best_pages < best->pages) pages_enough = false;
    for (size_t i : best->pools) {
      const PageCount part = std::min(best_pages, left[i]);
      left[i] -= part;
      best_pages -= part;
    }
  }
  if (pages_enough) {
    refusal.hint =
        "enough memory is clean, but in extents of other sizes: wait "
        "(max_wait) and it is rebuilt, or allow more extents";
    // Only where a greater number of extents would do: a page out of an extent
    // of four cannot be had by any.
    if (request.segments.size() == 1 && request.segments[0].max_extents == 0) {
      for (const SegmentOption& o : options.front()) {
        std::vector<ShapeCounts> unlimited = stock;
        if (PlaceSegment(o, UINT32_MAX, unlimited)) {
          refusal.reason = RefusalReason::kTooManyExtents;
        }
      }
    }
  } else {
    const Bytes missing = refusal.wanted > refusal.available
                              ? refusal.wanted - refusal.available
                              : Bytes(0);
    refusal.hint = absl::StrCat("short by ", ToString(missing),
                                "; wait (max_wait), ask for less, or raise "
                                "the pool's target");
  }
  return Refuse(refusal, absl::StrCat(ToString(refusal.wanted), " wanted, ",
                                      ToString(refusal.available),
                                      " of it clean now"));
}

absl::StatusOr<std::vector<Host::SegmentPlan>> Host::Plan(
    const HostRequest& request,
    const std::vector<std::vector<SegmentOption>>& options,
    const std::vector<size_t>& locked) const HP_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<ShapeCounts> stock(pools_.size());
  for (size_t i : locked) {
    stock[i] = pools_[i]->UsableLocked(request.terms);
  }
  const std::vector<ShapeCounts> before = stock;
  std::vector<SegmentPlan> plan;
  auto left = limits_.max_extents_per_lease;
  for (size_t s = 0; s < options.size(); ++s) {
    const auto later = static_cast<uint32_t>(options.size() - s - 1);
    bool placed = false;
    for (const SegmentOption& option : options[s]) {
      if (auto extents = PlaceSegment(option, left - later, stock)) {
        left -= static_cast<uint32_t>(extents->size());
        plan.push_back({&option, *std::move(extents)});
        placed = true;
        break;
      }
    }
    if (!placed) return Short(request, options, before);
  }
  return plan;
}

absl::StatusOr<Taken> Host::TakeWithLocks(
    const HostRequest& request,
    const std::vector<std::vector<SegmentOption>>& options,
    const std::vector<size_t>& locked, uint64_t sequence,
    bool hit) HP_NO_THREAD_SAFETY_ANALYSIS {
  HP_ASSIGN_OR_RETURN(auto plan, Plan(request, options, locked));
  std::vector<PageCount> from_pool(pools_.size());
  for (const SegmentPlan& segment : plan) {
    for (const PlannedExtent& e : segment.extents) {
      from_pool[e.pool] += e.pages;
    }
  }
  for (size_t i : locked) {
    if (from_pool[i].value() > 0 &&
        !pools_[i]->MayPassLocked(sequence, from_pool[i])) {
      Refusal refusal{RefusalReason::kPoolShort, {}, {},
                      "wait (max_wait) for a place in the queue"};
      for (const SegmentPlan& s : plan) {
        refusal.wanted += s.option->page_size.Of(s.option->pages);
      }
      return Refuse(refusal, absl::StrCat(ToString(refusal.wanted),
                                          " wanted; what is clean is kept for "
                                          "requests that wait already"));
    }
  }
  return Commit(request, plan, sequence, hit);
}

Taken Host::Commit(const HostRequest& request,
                   const std::vector<SegmentPlan>& plan, uint64_t sequence,
                   bool hit) HP_NO_THREAD_SAFETY_ANALYSIS {
  Taken taken;
  for (size_t s = 0; s < plan.size(); ++s) {
    const SegmentOption& option = *plan[s].option;
    Bytes offset;
    for (const PlannedExtent& e : plan[s].extents) {
      Pool& pool = *pools_[e.pool];
      const SlotId slot =
          pool.TakeLocked({e.pages}, request.terms, sequence, hit).front();
      const Bytes size = option.page_size.Of(e.pages);
      taken.extents.push_back(TakenExtent{
          slot, table_->id(slot), static_cast<uint32_t>(s), offset, size,
          option.page_size, pool.node, table_->origin(slot),
          table_->inode(slot), pool.IsBareLocked(slot)});
      offset += size;
    }
    taken.segments.push_back({option.page_size.Of(option.pages),
                              option.page_size});
    if (option.max_extents == 1) {
      pools_[plan[s].extents.front().pool]->NoteSingleExtentLocked(
          option.pages);
    }
  }
  return taken;
}

absl::StatusOr<Taken> Host::Take(const HostRequest& request) {
  HP_ASSIGN_OR_RETURN(auto options, Resolve(request));
  const std::vector<size_t> locked = Candidates(options);
  const uint64_t sequence =
      next_sequence_.fetch_add(1, std::memory_order_relaxed);
  LockSet locks(*this, locked);
  return TakeWithLocks(request, options, locked, sequence, /*hit=*/true);
}

absl::StatusOr<std::unique_ptr<Taken>> Host::TakeOrWait(
    const HostRequest& request) {
  HP_ASSIGN_OR_RETURN(auto options, Resolve(request));
  const std::vector<size_t> locked = Candidates(options);
  MutexLock lock(&wait_mu_);
  const uint64_t sequence =
      next_sequence_.fetch_add(1, std::memory_order_relaxed);
  LockSet locks(*this, locked);
  absl::StatusOr<Taken> taken =
      TakeWithLocks(request, options, locked, sequence, /*hit=*/true);
  if (taken.ok()) return std::make_unique<Taken>(*std::move(taken));
  if (waiters_.size() >= limits_.max_waiters) {
    return Refuse(RefusalReason::kPoolShort,
                  absl::StrCat(waiters_.size(), " requests wait already"),
                  "try again later");
  }
  Waiter waiter{request, std::move(options), sequence};
  EnqueueDemands(waiter);
  waiters_.emplace(sequence, std::move(waiter));
  return nullptr;
}

// Books each segment's pages with the pools that shall make them. Pools hold
// the demand under their own mutex, so that they plan for it.
void Host::EnqueueDemands(const Waiter& waiter) HP_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<PageCount> capacity;
  for (const PoolFacts& f : facts_) capacity.push_back(f.capacity);
  // Each part gets an equal share of the extents that the lease may have:
  // otherwise every part could be composed alone and all together not.
  const auto of_lease = static_cast<uint32_t>(limits_.max_extents_per_lease /
                                              waiter.options.size());
  for (size_t s = 0; s < waiter.options.size(); ++s) {
    const Bytes hot = waiter.request.segments[s].hot;
    for (const SegmentOption& option : waiter.options[s]) {
      auto spread = SpreadDemand(option, capacity);
      if (!spread) continue;
      const uint32_t of_segment_extents =
          option.max_extents == 0 ? of_lease
                                  : std::min(of_lease, option.max_extents);
      for (const auto& [pool, pages] : *spread) {
        Demand demand;
        demand.lease = waiter.request.terms.lease;
        demand.sequence = waiter.sequence;
        demand.domain = waiter.request.terms.stock();
        demand.pages = pages;
        if (spread->size() == 1) demand.hot = hot;
        demand.bare = waiter.request.terms.fills && pools_[pool]->fills();
        demand.max_extents = std::max<uint32_t>(
            1, of_segment_extents / static_cast<uint32_t>(spread->size()));
        pools_[pool]->EnqueueLocked(demand);
        if (option.max_extents == 1) {
          pools_[pool]->NoteSingleExtentLocked(pages);
        }
      }
      break;
    }
  }
}

bool Host::CancelWait(LeaseId lease) HP_NO_THREAD_SAFETY_ANALYSIS {
  MutexLock lock(&wait_mu_);
  for (auto it = waiters_.begin(); it != waiters_.end(); ++it) {
    if (it->second.request.terms.lease != lease) continue;
    const std::vector<size_t> locked = Candidates(it->second.options);
    LockSet locks(*this, locked);
    for (size_t i : locked) pools_[i]->DequeueLocked(lease);
    waiters_.erase(it);
    return true;
  }
  return false;
}

std::vector<Host::Served> Host::ServeWaiters() HP_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<Served> served;
  MutexLock lock(&wait_mu_);
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    Waiter& w = it->second;
    const std::vector<size_t> locked = Candidates(w.options);
    LockSet locks(*this, locked);
    absl::StatusOr<Taken> taken = TakeWithLocks(w.request, w.options, locked,
                                                w.sequence, /*hit=*/false);
    if (!taken.ok()) {
      ++it;
      continue;
    }
    const LeaseId lease = w.request.terms.lease;
    for (size_t i : locked) pools_[i]->DequeueLocked(lease);
    served.push_back({lease, *std::move(taken)});
    it = waiters_.erase(it);
  }
  return served;
}

std::vector<Host::WaitView> Host::Waits() const HP_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<WaitView> views;
  MutexLock lock(&wait_mu_);
  for (const auto& [sequence, w] : waiters_) {
    WaitView view;
    view.lease = w.request.terms.lease;
    view.position = static_cast<uint32_t>(views.size());
    const std::vector<size_t> locked = Candidates(w.options);
    LockSet locks(*this, locked);
    for (const auto& of_segment : w.options) {
      const SegmentOption& o = of_segment.front();
      PageCount have;
      for (size_t i : o.pools) {
        have += TotalPages(pools_[i]->UsableLocked(w.request.terms)) +
                pools_[i]->MadeLocked();
      }
      view.wanted += o.page_size.Of(o.pages);
      view.available += o.page_size.Of(std::min(have, o.pages));
    }
    views.push_back(view);
  }
  return views;
}

Bytes Host::Verifying() const {
  Bytes sum;
  for (const auto& pool : pools_) {
    sum += pool->page_size.Of(pool->Verifying());
  }
  return sum;
}

absl::Status Host::CheckInvariants() const {
  for (const auto& pool : pools_) HP_RETURN_IF_ERROR(pool->CheckInvariants());
  return absl::OkStatus();
}

}  // namespace hugepool
