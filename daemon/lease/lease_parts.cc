#include "daemon/lease/lease_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"

namespace hugepool {
namespace {

std::string Describe(const ReleaseRange& r) {
  return absl::StrCat(r.size.value(), " bytes from byte ", r.offset.value(),
                      " of segment ", r.segment);
}

absl::Status Bad(const ReleaseRange& range, const std::string& what,
                 const std::string& hint) {
  return Refuse(RefusalReason::kBadRequest,
                absl::StrCat("ranges: ", Describe(range), " ", what), hint);
}

absl::Status CheckOverlaps(std::vector<ReleaseRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ReleaseRange& a, const ReleaseRange& b) {
              return std::pair(a.segment, a.offset) <
                     std::pair(b.segment, b.offset);
            });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const ReleaseRange& before = ranges[i - 1];
    if (ranges[i].segment == before.segment &&
        ranges[i].offset < before.offset + before.size) {
      return Bad(ranges[i],
                 absl::StrCat("overlap ", Describe(before)),
                 "name each page once");
    }
  }
  return absl::OkStatus();
}

}  // namespace

LeaseParts::LeaseParts(const Lease& lease, const Host& host,
                       const QueueOf& queue_of)
    : id_(lease.id),
      owner_(lease.owner),
      lifetime_(lease.lifetime),
      parts_(std::make_unique<Part[]>(lease.extents.size())),
      count_(lease.extents.size()) {
  for (size_t i = 0; i < count_; ++i) {
    const TakenExtent& e = lease.extents[i];
    Part& p = parts_[i];
    p.segment = e.segment;
    p.offset = e.offset;
    p.size = e.size;
    p.page_size = e.page_size;
    p.extent = e.id;
    p.pool = &host.PoolOf(e);
    p.queue = queue_of(*p.pool);
  }
}

LeaseParts::~LeaseParts() {
  for (size_t i = 0; i < count_; ++i) {
    // relaxed: nobody else has us any more.
    DeferredRef::Adopt(parts_[i].deferred.load(std::memory_order_relaxed));
  }
}

absl::Status LeaseParts::ResolveOne(const ReleaseRange& range,
                                    std::vector<Pages>* pages) const {
  const Part* const end = parts_.get() + count_;
  const Part* p = std::find_if(static_cast<const Part*>(parts_.get()), end, [&](const Part& part) {
    return part.segment == range.segment;
  });
  if (p == end) return Bad(range, "is no segment of the lease", "");
  const uint64_t page = p->page_size.bytes().value();
  if (range.size.value() == 0 || range.size.value() % page != 0 ||
      range.offset.value() % page != 0) {
    return Bad(range,
               absl::StrCat("are not whole pages of ", ToString(p->page_size)),
               "only whole pages can be given up");
  }
  Bytes left = range.size;
  Bytes at = range.offset;
  // The extents of a segment follow each other.
  for (; p != end && p->segment == range.segment && left > Bytes(0); ++p) {
    if (at < p->offset || at - p->offset >= p->size) continue;
    const Bytes within = at - p->offset;
    const Bytes length = std::min(left, p->size - within);
    pages->push_back(
        {p, p->page_size.Floor(within), p->page_size.Floor(length)});
    at += length;
    left -= length;
  }
  if (left > Bytes(0)) {
    return Bad(range, "are not in it", "the segment is shorter");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LeaseParts::Pages>> LeaseParts::Resolve(
    const std::vector<ReleaseRange>& ranges) const {
  std::vector<Pages> pages;
  for (const ReleaseRange& r : ranges) {
    HP_RETURN_IF_ERROR(ResolveOne(r, &pages));
  }
  HP_RETURN_IF_ERROR(CheckOverlaps(ranges));
  for (const Pages& p : pages) {
    if (p.part->queue == nullptr || p.part->pool->lets_go()) {
      return absl::FailedPreconditionError(
          "this kernel has no way to ask for holders, so descriptors are let "
          "go and parts cannot be taken back: release the whole lease");
    }
    // acquire: with the exchange of who made it.
    const DeferredExtent* const known =
        p.part->deferred.load(std::memory_order_acquire);
    if (known != nullptr && known->released().Overlaps(p.first, p.count)) {
      return absl::FailedPreconditionError(
          absl::StrCat("ranges: a page of ", p.count.value(), " from page ",
                       p.first.value(), " of ", ToWire(p.part->extent),
                       " on was released before"));
    }
  }
  return pages;
}

// The first of several makes it; the others' is dropped.
DeferredExtent& LeaseParts::DeferredOf(const Part& part) const {
  // acquire: with the exchange below.
  DeferredExtent* known = part.deferred.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  DeferredRef made =
      DeferredExtent::Make(part.queue, part.pool, part.extent, id_,
                           part.page_size.Floor(part.size));
  // release: publishes what was made. acquire: sees another's.
  if (part.deferred.compare_exchange_strong(known, made.get(),
                                            std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
    return *made.Let();
  }
  return *known;
}

absl::StatusOr<Bytes> LeaseParts::Release(
    const std::vector<ReleaseRange>& ranges, absl::Time now,
    Queued* queued) const {
  HP_ASSIGN_OR_RETURN(const std::vector<Pages> pages, Resolve(ranges));
  Bytes released;
  PageCount again;
  for (const Pages& p : pages) {
    DeferredExtent& deferred = DeferredOf(*p.part);
    const bool was_queued = deferred.queued();
    const ReleasedPages::Noted noted =
        deferred.Release(p.first, p.count, now);
    if (!was_queued) queued->insert(p.part->pool);
    released += p.part->page_size.Of(noted.fresh);
    again += noted.again;
  }
  if (again.value() > 0) {
    // Not what is said of ranges that were refused: this has had an effect.
    return absl::AbortedError(
        absl::StrCat("ranges: ", again.value(),
                     " pages were released by another call at the same time; "
                     "the rest is released"));
  }
  return released;
}

void LeaseParts::End() const {
  for (size_t i = 0; i < count_; ++i) {
    // acquire: with the exchange of who made it.
    DeferredExtent* const deferred =
        parts_[i].deferred.load(std::memory_order_acquire);
    // One that is made after this look is queued in vain: the pool does not have
    // the extent held by this lease any more, and it is dropped.
    if (deferred != nullptr) parts_[i].queue->Remove(*deferred);
  }
}

const LeaseParts* PartsIndex::Find(LeaseId id,
                                   const ReadGuard::Scope& scope) const {
  const Bucket* const bucket = buckets_[IndexOf(id)].Load(scope);
  if (bucket == nullptr) return nullptr;
  for (const auto& parts : *bucket) {
    if (parts->id() == id) return parts.get();
  }
  return nullptr;
}

void PartsIndex::Publish(std::shared_ptr<const LeaseParts> parts) {
  GuardedPtr<const Bucket>& bucket = buckets_[IndexOf(parts->id())];
  const Bucket* const now = bucket.LoadAsWriter();
  auto next = now == nullptr ? std::make_unique<Bucket>()
                             : std::make_unique<Bucket>(*now);
  next->push_back(std::move(parts));
  bucket.Replace(std::move(next), guard_);
}

bool PartsIndex::Remove(LeaseId id) {
  GuardedPtr<const Bucket>& bucket = buckets_[IndexOf(id)];
  const Bucket* const now = bucket.LoadAsWriter();
  if (now == nullptr) return false;
  auto next = std::make_unique<Bucket>(*now);
  const auto it = std::find_if(
      next->begin(), next->end(),
      [id](const auto& parts) { return parts->id() == id; });
  if (it == next->end()) return false;
  (*it)->End();
  next->erase(it);
  if (next->empty()) next.reset();
  bucket.Replace(std::move(next), guard_);
  return true;
}

}  // namespace hugepool
