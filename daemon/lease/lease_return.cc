// The way back of a lease.
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

absl::Status NoSuchLease(LeaseId id, const std::string& name) {
  return Refuse(
      RefusalReason::kLeaseGone,
      absl::StrCat("there is no lease ",
                   name.empty() ? ToWire(id) : absl::StrCat("'", name, "'"),
                   " of the caller"),
      "it has ended, or belongs to another domain (hpctl lease list)");
}

// Of a lease that the caller may see: all of it, or parts.
absl::Status MayRelease(const Identity& caller, LeaseId id,
                        const Identity& owner, Lifetime lifetime) {
  if (caller.admin || caller.uid == owner.uid || lifetime == Lifetime::kNamed) {
    return absl::OkStatus();
  }
  return Refuse(RefusalReason::kNotAllowed,
                absl::StrCat(ToWire(id), " belongs to uid ", owner.uid,
                             ", not to uid ", caller.uid),
                "its holder or an admin can release it");
}

}  // namespace

LeaseManager::Entry* LeaseManager::FindEntry(LeaseId id) {
  auto it = leases_.find(id);
  return it == leases_.end() ? nullptr : it->second.get();
}

void LeaseManager::Publish(LeaseNews::Kind kind, const Lease& lease,
                           After* after) {
  LeaseNews news;
  news.kind = kind;
  news.lease = lease.id;
  news.domain = lease.owner.domain;
  news.bytes = lease.size();
  after->news.push_back(news);
}

void LeaseManager::Run(After after) {
  for (const News& news : after.news) deps_.news->Publish(news);
  for (const Pool* pool : after.wake) deps_.wake(*pool);
  if (after.expiry.has_value()) {
    const LeaseId id = after.expiry->first;
    deps_.executor->PostAt(after.expiry->second, [this, id] {
      Identity self;
      self.admin = true;
      (void)Release(self, id, "");
    });
  }
  bool somebody_left = false;
  for (LeaseId id : after.cancel_waits) {
    if (LeaveQueue(id)) {
      somebody_left = true;
      Fail(id, absl::UnavailableError("the session ended while it waited"));
    }
  }
  // Those behind it may pass now.
  if (somebody_left) ServeWaiters();
  for (const auto& call : after.calls) call();
  if (after.collect) parts_.Collect();
}

// Forgets whom the lease belonged to: it is not found by them any more.
void LeaseManager::Unlink(const Entry& entry) {
  const Lease& lease = entry.lease;
  if (Session* session = FindSession(lease.session)) {
    session->leases.erase(lease.id);
    auto it = session->by_request.find(lease.request_id);
    if (it != session->by_request.end() && it->second == lease.id) {
      session->by_request.erase(it);
    }
  }
  auto name = by_name_.find({lease.owner.domain, lease.name});
  if (name != by_name_.end() && name->second == lease.id) by_name_.erase(name);
}

// Sends all of a lease's memory on its way back. Stays in the books, charged,
// until the pools report every extent.
void LeaseManager::EndLease(Entry& entry, LeaseNews::Kind why, After* after) {
  Lease& lease = entry.lease;
  if (lease.phase == LeasePhase::kReturning) return;
  if (entry.sending) {
    entry.doomed = true;  // FinishSend or FinishAttach comes back here
    return;
  }
  Landed(lease.id, lease.generation);
  Unlink(entry);
  Publish(why, lease, after);
  lease.phase = LeasePhase::kReturning;
  if (parts_.Remove(lease.id)) after->collect = true;
  for (const TakenExtent& e : lease.extents) {
    Pool& pool = deps_.host->PoolOf(e);
    pool.Return(e.slot, lease.id, /*keep_in_place=*/lease.in_place);
    after->wake.insert(&pool);
  }
  if (lease.extents.empty()) EraseLease(lease.id, after);
}

void LeaseManager::EraseLease(LeaseId id, After* after) {
  auto it = leases_.find(id);
  HP_CHECK(it != leases_.end(), "only a booked lease is erased");
  Landed(id, it->second->lease.generation);
  Unlink(*it->second);
  deps_.domains->CountLease(it->second->lease.owner.domain, -1);
  if (it->second->lease.phase == LeasePhase::kReturning ||
      it->second->lease.phase == LeasePhase::kHeld) {
    Publish(LeaseNews::Kind::kGone, it->second->lease, after);
    ended_.emplace(id, it->second->lease.owner);
    if (ended_.size() > kEnded) ended_.erase(ended_.begin());
  }
  for (RevokeCallback& told : it->second->revoking) {
    after->calls.push_back([told = std::move(told)] { told(Bytes(0)); });
  }
  // Where its memory came back before it was released.
  if (parts_.Remove(id)) after->collect = true;
  leases_.erase(it);
}

absl::Status LeaseManager::Refuse(SessionId session, LeaseId id,
                                  uint64_t generation,
                                  const std::string& reason) {
  After after;
  {
    MutexLock lock(&mu_);
    auto flight = in_flight_.find({id, generation});
    Entry* entry = FindEntry(id);
    if (flight == in_flight_.end() || flight->second.session != session ||
        entry == nullptr) {
      return hugepool::Refuse(RefusalReason::kLeaseGone,
                              absl::StrCat("no grant of ", ToWire(id),
                                           " is on its way to this session"));
    }
    if (entry->lease.phase == LeasePhase::kGranted) {
      EndLease(*entry, LeaseNews::Kind::kRolledBack, &after);
    } else {
      Landed(id, generation);  // an attachment failed; the lease lives on
    }
  }
  Log(LogLevel::kInfo, absl::StrCat("grant of ", ToWire(id),
                                    " refused by its client: ", reason));
  Run(std::move(after));
  return absl::OkStatus();
}

bool LeaseManager::EndedLately(const Identity& caller, LeaseId id) const {
  const auto it = ended_.find(id);
  return it != ended_.end() &&
         (caller.admin || (it->second.uid == caller.uid &&
                           it->second.domain == caller.domain));
}

absl::StatusOr<Bytes> LeaseManager::Release(const Identity& caller, LeaseId id,
                                            const std::string& name) {
  After after;
  Bytes released;
  {
    MutexLock lock(&mu_);
    const Entry* visible = FindVisible(caller, id, name);
    if (visible == nullptr && name.empty() && EndedLately(caller, id)) {
      return Bytes(0);
    }
    if (visible == nullptr) return NoSuchLease(id, name);
    Entry& entry = *FindEntry(visible->lease.id);
    HP_RETURN_IF_ERROR(MayRelease(caller, entry.lease.id, entry.lease.owner,
                                  entry.lease.lifetime));
    if (entry.waiting || entry.starting) {
      return absl::FailedPreconditionError(
          absl::StrCat(ToWire(entry.lease.id), " has no memory yet"));
    }
    if (entry.lease.phase != LeasePhase::kReturning) {
      released = entry.lease.size();
      EndLease(entry, LeaseNews::Kind::kReleased, &after);
    }
  }
  Run(std::move(after));
  return released;
}

void LeaseManager::NoteShrunk(const ShrunkExtent& shrunk) {
  Entry* entry = FindEntry(shrunk.lease);
  if (entry == nullptr) return;
  for (TakenExtent& e : entry->lease.extents) {
    if (e.id != shrunk.extent) continue;
    e.gone = e.size - shrunk.after;
    if (shrunk.after < shrunk.before) {
      deps_.domains->Discharge(shrunk.domain, shrunk.before - shrunk.after);
    } else {
      deps_.domains->ChargeAnyway(shrunk.domain, shrunk.after - shrunk.before);
    }
  }
}

absl::StatusOr<Bytes> LeaseManager::ReleaseRanges(
    const Identity& caller, LeaseId id, const std::string& name,
    const std::vector<ReleaseRange>& ranges) {
  if (!name.empty()) {
    MutexLock lock(&mu_);
    if (const Entry* named = FindVisible(caller, id, name)) {
      id = named->lease.id;
    }
  }
  absl::StatusOr<Bytes> released;
  LeaseParts::Queued queued;
  {
    const ReadGuard::Scope scope(parts_.guard());
    const LeaseParts* const parts = parts_.Find(id, scope);
    if (parts == nullptr || !MaySee(caller, parts->owner())) {
      return NoSuchLease(id, name);
    }
    HP_RETURN_IF_ERROR(
        MayRelease(caller, id, parts->owner(), parts->lifetime()));
    released = parts->Release(ranges, deps_.clock->Now(), &queued);
  }
  // A pool that is short would come by itself, within two seconds.
  for (const Pool* pool : queued) deps_.wake(*pool);
  return released;
}

void LeaseManager::OnNews(const PoolNews& news) {
  After after;
  std::vector<LeaseId> ready;
  {
    MutexLock lock(&mu_);
    for (const PreparedExtent& prepared : news.prepared) {
      if (NotePrepared(prepared)) ready.push_back(prepared.lease);
    }
    for (const ShrunkExtent& shrunk : news.shrunk) NoteShrunk(shrunk);
    for (const BackExtent& back : news.back) {
      Entry* entry = FindEntry(back.lease);
      // Taken but never charged: FinishTake gave it up and forgot the lease.
      if (entry == nullptr) continue;
      Lease& lease = entry->lease;
      const size_t before = lease.extents.size();
      std::erase_if(lease.extents, [&](const TakenExtent& e) {
        return e.id == back.extent;
      });
      if (lease.extents.size() == before) continue;
      deps_.domains->Discharge(back.domain, back.size);
      if (lease.extents.empty() && !entry->sending) {
        EraseLease(lease.id, &after);
      }
    }
  }
  Run(std::move(after));
  for (LeaseId id : ready) FinishTasks(id);
  if (news.stock_grew) ServeWaiters();
}

void LeaseManager::ServeWaiters() {
  for (Host::Served& served : deps_.host->ServeWaiters()) {
    FinishTake(served.lease, std::move(served.taken));
  }
}

}  // namespace hugepool
