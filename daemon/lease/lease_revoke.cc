// Memory that an operator wants back, whoever has it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/lease/after.h"
#include "daemon/lease/lease_manager.h"

namespace hugepool {

absl::StatusOr<LeaseManager::Entry*> LeaseManager::FindToRevoke(LeaseId id) {
  Entry* const entry = FindEntry(id);
  if (entry == nullptr) {
    return hugepool::Refuse(RefusalReason::kLeaseGone,
                            absl::StrCat("there is no lease ", ToWire(id)),
                            "see hpctl lease list");
  }
  // Its files are in somebody's hands, or not there yet.
  if (entry->waiting || entry->starting || entry->sending) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToWire(id), " is being granted: revoke it again later"));
  }
  return entry;
}

absl::Status LeaseManager::MayRevoke(const Lease& lease) const {
  if (lease.sealed) {
    return absl::FailedPreconditionError(absl::StrCat(
        ToWire(lease.id),
        " is sealed against shrinking, so its memory cannot be taken from its "
        "holders; --kill ends them"));
  }
  for (const TakenExtent& e : lease.extents) {
    if (deps_.host->PoolOf(e).MayRevoke(e.slot, lease.id)) continue;
    // One that is on its way back by itself is no obstacle.
    if (deps_.host->table().lease(e.slot) != lease.id) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        ToWire(lease.id),
        ": on this kernel descriptors are closed once they are lent, so memory "
        "cannot be taken from its holders; --kill ends them"));
  }
  return absl::OkStatus();
}

void LeaseManager::TakeAwayLocked(Entry& entry, After* after) {
  const Lease& lease = entry.lease;
  for (const TakenExtent& e : lease.extents) {
    Pool& pool = deps_.host->PoolOf(e);
    pool.Revoke(e.slot, lease.id);
    after->wake.insert(&pool);
  }
}

void LeaseManager::Revoke(LeaseId id, absl::Duration notice,
                          RevokeCallback done) {
  absl::Status status;
  SessionId session;
  {
    MutexLock lock(&mu_);
    auto entry = FindToRevoke(id);
    status = entry.status();
    if (status.ok()) status = MayRevoke((*entry)->lease);
    if (status.ok()) {
      const Lease& lease = (*entry)->lease;
      session = lease.session;
      // What is charged now may be back, or more, by then: this is what was
      // ordered.
      (*entry)->revoking.push_back(
          [done, bytes = lease.size()](absl::StatusOr<Bytes> result) {
            done(result.ok() ? absl::StatusOr<Bytes>(bytes) : result);
          });
    }
  }
  if (!status.ok()) return done(status);
  deps_.sender->SendRevokeNotice(session, id, notice);
  if (notice <= absl::ZeroDuration()) return TakeAway(id);
  deps_.executor->PostAt(deps_.clock->Now() + notice,
                         [this, id] { TakeAway(id); });
}

void LeaseManager::TakeAway(LeaseId id) {
  After after;
  {
    MutexLock lock(&mu_);
    Entry* const entry = FindEntry(id);
    if (entry == nullptr) return;  // given back meanwhile, and told so
    // In this order: where pools let go, ending it would close the descriptor.
    TakeAwayLocked(*entry, &after);
    EndLease(*entry, LeaseNews::Kind::kRevoked, &after);
  }
  Run(std::move(after));
}

absl::Status LeaseManager::EndForKill(LeaseId id) {
  After after;
  {
    MutexLock lock(&mu_);
    HP_ASSIGN_OR_RETURN(Entry* const entry, FindToRevoke(id));
    if (MayRevoke(entry->lease).ok()) TakeAwayLocked(*entry, &after);
    EndLease(*entry, LeaseNews::Kind::kRevoked, &after);
  }
  Run(std::move(after));
  return absl::OkStatus();
}

}  // namespace hugepool
