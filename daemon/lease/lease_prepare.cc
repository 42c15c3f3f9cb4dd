// Between taking and sending: copies of other leases, and a last look.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/refusal.h"
#include "daemon/lease/after.h"
#include "daemon/lease/lease_manager.h"

namespace hugepool {
namespace {

// How far `hot` is from an extent at [begin, begin + size).
Bytes DistanceOf(Bytes hot, Bytes begin, Bytes size) {
  if (hot < begin) return begin - hot;
  return hot < begin + size ? Bytes(0) : hot - (begin + size) + Bytes(1);
}

// `hot` of the segment, counted from the beginning of an extent of it.
Bytes HotIn(Bytes hot, const TakenExtent& e) {
  if (hot < e.offset) return Bytes(0);
  return std::min(hot - e.offset, e.size - Bytes(1));
}

// What an extent at `e` of a copy of [from, from + size) of `source` is to be
// filled with. `source` are the extents of a lease, end to end.
std::vector<CopyPiece> PiecesFor(const std::vector<const TakenExtent*>& source,
                                 Bytes from, Bytes size, const TakenExtent& e) {
  std::vector<CopyPiece> pieces;
  if (e.offset >= size) return pieces;  // beyond what was asked for: zeros
  const Bytes begin = from + e.offset;
  const Bytes end = from + std::min(size, e.offset + e.size);
  Bytes at;
  for (const TakenExtent* s : source) {
    const Bytes first = std::max(begin, at);
    const Bytes last = std::min(end, at + s->size);
    if (first < last) {
      pieces.push_back({s->slot, first - at, first - begin, last - first});
    }
    at += s->size;
  }
  return pieces;
}

}  // namespace

// The extents of the lease to be copied from, in order, if the caller may and
// the range is in it.
absl::StatusOr<std::vector<const TakenExtent*>> LeaseManager::FindSource(
    const Identity& caller, const SegmentRequest& segment) const {
  const CopySource& from = *segment.copy;
  const Entry* entry = FindVisible(caller, from.lease, "");
  if (entry == nullptr || entry->lease.owner.domain != caller.domain ||
      entry->lease.phase == LeasePhase::kReturning) {
    return hugepool::Refuse(
        RefusalReason::kLeaseGone,
        absl::StrCat("copy_from: the domain has no lease ", ToWire(from.lease)),
        "it has ended, or belongs to another domain (hpctl lease list)");
  }
  const Lease& lease = entry->lease;
  if (lease.phase == LeasePhase::kGranted) {
    return absl::FailedPreconditionError(
        absl::StrCat("copy_from: ", ToWire(from.lease),
                     " was not yet acknowledged by its holder"));
  }
  Bytes all;
  for (const TakenSegment& s : lease.segments) all += s.granted;
  Bytes living;
  for (const TakenExtent& e : lease.extents) living += e.size;
  if (living != all) {
    return hugepool::Refuse(
        RefusalReason::kLeaseGone,
        absl::StrCat("copy_from: a part of ", ToWire(from.lease),
                     " has ended already"));
  }
  if (from.offset > all || segment.size > all - from.offset) {
    return hugepool::Refuse(
        RefusalReason::kBadRequest,
        absl::StrCat("copy_from: ", ToString(segment.size), " from byte ",
                     from.offset.value(), " on are not in the ", ToString(all),
                     " of ", ToWire(from.lease)),
        "copy a part that is");
  }
  std::vector<const TakenExtent*> extents;
  for (const TakenExtent& e : lease.extents) extents.push_back(&e);
  return extents;
}

// From here to StopReading() the memory of the source stays.
absl::Status LeaseManager::StartReading(
    Entry& entry, const CopySource& source,
    const std::vector<const TakenExtent*>& extents) {
  for (const TakenExtent* e : extents) {
    Pool& pool = deps_.host->PoolOf(*e);
    if (pool.lets_go()) {
      return absl::FailedPreconditionError(
          "copy_from: this kernel has no way to ask for holders, so "
          "descriptors "
          "are let go and nothing can be copied");
    }
    if (!pool.StartReading(e->slot, source.lease)) {
      return hugepool::Refuse(
          RefusalReason::kLeaseGone,
          absl::StrCat("copy_from: ", ToWire(source.lease), " is ending"));
    }
    entry.reading.push_back({&pool, e->slot});
  }
  return absl::OkStatus();
}

void LeaseManager::StopReading(Entry& entry, After* after) {
  for (const Reading& r : entry.reading) {
    r.pool->EndReading(r.slot);
    after->wake.insert(r.pool);
  }
  entry.reading.clear();
}

// What has to be done to the extents of a lease before it is sent; what is
// touched first comes last.
absl::Status LeaseManager::PlanTasks(Entry& entry, std::vector<Task>* tasks) {
  const Lease& lease = entry.lease;
  std::vector<std::vector<const TakenExtent*>> sources;
  for (const SegmentRequest& s : entry.spec.segments) {
    sources.emplace_back();
    if (!s.copy) continue;
    HP_ASSIGN_OR_RETURN(sources.back(), FindSource(lease.owner, s));
    HP_RETURN_IF_ERROR(StartReading(entry, *s.copy, sources.back()));
  }
  for (const TakenExtent& e : lease.extents) {
    const SegmentRequest& s = entry.spec.segments[e.segment];
    Preparation p;
    p.verify = options_.verify_at_grant;
    p.hot = HotIn(s.hot, e);
    if (s.copy) {
      p.copy = PiecesFor(sources[e.segment], s.copy->offset, s.size, e);
    }
    if (!p.verify && p.copy.empty() && !e.bare) continue;
    tasks->push_back({&deps_.host->PoolOf(e), e.slot, std::move(p),
                      DistanceOf(s.hot, e.offset, e.size)});
  }
  std::stable_sort(
      tasks->begin(), tasks->end(),
      [](const Task& a, const Task& b) { return a.distance > b.distance; });
  return absl::OkStatus();
}

void LeaseManager::StartTasks(std::vector<Task> tasks) {
  std::set<const Pool*> pools;
  for (Task& t : tasks) {
    t.pool->Prepare(t.slot, std::move(t.preparation));
    pools.insert(t.pool);
  }
  for (const Pool* pool : pools) deps_.wake(*pool);
}

// True: nothing is left to prepare.
bool LeaseManager::NotePrepared(const PreparedExtent& prepared) {
  Entry* entry = FindEntry(prepared.lease);
  HP_CHECK(entry != nullptr && entry->preparing > 0,
           "a lease that is prepared is booked");
  if (prepared.outcome != WorkOutcome::kDone) {
    entry->failed.insert(prepared.extent);
  }
  if (prepared.outcome != WorkOutcome::kDone && entry->prepared.ok()) {
    // Other memory will do where this was found wanting; another source is not
    // ours to choose.
    entry->prepared =
        prepared.kind == WorkKind::kVerify ||
                prepared.outcome == WorkOutcome::kNoPages
            ? absl::AbortedError(prepared.why)
            : absl::DataLossError(absl::StrCat("copy_from: ", prepared.why));
  }
  return --entry->preparing == 0;
}

// Nothing was opened for the client. What is still zero goes back to stock at
// once, where a second try finds it; the rest goes the way of all that was
// lent.
void LeaseManager::GiveUpUnsent(Entry& entry) {
  Lease& lease = entry.lease;
  std::erase_if(lease.extents, [&](const TakenExtent& e) {
    Pool& pool = deps_.host->PoolOf(e);
    if (entry.spec.segments[e.segment].copy || entry.failed.contains(e.id)) {
      pool.NeverOpened(e.slot);
      return false;
    }
    pool.Untake(e.slot);
    deps_.domains->Discharge(lease.owner.domain, e.size);
    return true;
  });
}

void LeaseManager::FinishTasks(LeaseId id) {
  Lease lease;
  absl::Status status;
  After after;
  {
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(id);
    HP_CHECK(entry != nullptr && entry->sending,
             "a lease being sent is booked");
    StopReading(*entry, &after);
    status = std::exchange(entry->prepared, absl::OkStatus());
    if (status.ok() && entry->doomed) {
      status = absl::UnavailableError("the session ended during the grant");
    }
    if (!status.ok()) GiveUpUnsent(*entry);
    lease = entry->lease;
  }
  Run(std::move(after));
  if (!status.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat(ToWire(id), " could not be prepared: ", status.message()));
    // Others may wait for what went back to stock; this one's second try first.
    deps_.executor->Post([this] { ServeWaiters(); });
    return FinishSend(id, status);
  }
  FinishSend(id, granter_.Grant(lease, lease.session, lease.request_id));
}

}  // namespace hugepool
