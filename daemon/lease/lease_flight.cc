// Grants on their way: sent, and not yet acknowledged.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/refusal.h"
#include "daemon/lease/after.h"
#include "daemon/lease/lease_manager.h"

namespace hugepool {

absl::Status LeaseManager::Acknowledge(SessionId session, LeaseId id,
                                       uint64_t generation) {
  After after;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    auto flight = in_flight_.find({id, generation});
    Entry* entry = FindEntry(id);
    if (flight == in_flight_.end() || flight->second.session != session ||
        entry == nullptr || entry->sending) {
      return hugepool::Refuse(
          RefusalReason::kLeaseGone,
          absl::StrCat("no grant of ", ToWire(id), " waits for an "
                       "acknowledgement of this session"),
          "the grant was rolled back; acquire again");
    }
    Landed(id, generation);
    Lease& lease = entry->lease;
    if (lease.phase == LeasePhase::kGranted) {
      lease.phase = LeasePhase::kHeld;
      for (const TakenExtent& e : lease.extents) {
        Pool& pool = deps_.host->PoolOf(e);
        pool.Held(e.slot);
        // Only a MEMORY lease or a pool that lets go has work now.
        if (lease.lifetime == Lifetime::kMemory || pool.lets_go()) {
          after.wake.insert(&pool);
        }
      }
      // A MEMORY or NAMED lease does not end with its session.
      if (lease.lifetime != Lifetime::kSession) {
        if (Session* s = FindSession(lease.session)) s->leases.erase(id);
      }
      if (lease.expires != absl::InfiniteFuture()) {
        after.expiry = {id, deps_.clock->Now() + entry->spec.time_to_live};
      }
      Publish(LeaseNews::Kind::kHeld, lease, &after);
    }
  }
  Run(std::move(after));
  return status;
}

absl::Status LeaseManager::MayFly(const Session& session, uint32_t fds) const {
  if (session.fds_in_flight + fds <=
          options_.max_unacknowledged_fds_per_session &&
      fds_in_flight_ + fds <= options_.max_unacknowledged_fds) {
    return absl::OkStatus();
  }
  return hugepool::Refuse(
      Refusal{RefusalReason::kQuota, {}, {},
              "acknowledge the grants that have arrived, then try again"},
      absl::StrCat(fds, " descriptors more would be too many on their way: ",
                   session.fds_in_flight, " of this session, ", fds_in_flight_,
                   " in all"));
}

void LeaseManager::Fly(Session& session, const Lease& lease) {
  const auto fds = static_cast<uint32_t>(lease.extents.size());
  session.fds_in_flight += fds;
  fds_in_flight_ += fds;
  in_flight_[{lease.id, lease.generation}] = {session.id, fds};
}

// Descriptors of a grant are not on their way any more.
void LeaseManager::Landed(LeaseId lease, uint64_t generation) {
  auto it = in_flight_.find({lease, generation});
  if (it == in_flight_.end()) return;
  if (Session* session = FindSession(it->second.session)) {
    session->fds_in_flight -= it->second.fds;
  }
  fds_in_flight_ -= it->second.fds;
  in_flight_.erase(it);
}

// One timer for all: every grant is acknowledged within the same time, so their
// deadlines are in the order of their sending, and nearly all are met long before.
void LeaseManager::ExpectAcknowledgement(const Lease& lease) {
  deadlines_.push_back({deps_.clock->Now() + options_.acknowledge_within,
                        {lease.id, lease.generation}});
  if (std::exchange(sweeping_, true)) return;
  deps_.executor->PostAt(deadlines_.front().first, [this] { SweepGrants(); });
}

// Rolls back what was not acknowledged in time.
void LeaseManager::SweepGrants() {
  const absl::Time now = deps_.clock->Now();
  After after;
  {
    MutexLock lock(&mu_);
    while (!deadlines_.empty()) {
      const auto [deadline, key] = deadlines_.front();
      const bool in_flight = in_flight_.contains(key);
      if (in_flight && deadline > now) break;
      deadlines_.pop_front();
      if (!in_flight) continue;
      Entry* entry = FindEntry(key.first);
      // The lease can be gone before an attachment to it was acknowledged.
      if (entry != nullptr && entry->lease.phase == LeasePhase::kGranted) {
        EndLease(*entry, LeaseNews::Kind::kRolledBack, &after);
      } else {
        Landed(key.first, key.second);
      }
    }
    sweeping_ = !deadlines_.empty();
    if (sweeping_) {
      deps_.executor->PostAt(deadlines_.front().first,
                             [this] { SweepGrants(); });
    }
  }
  Run(std::move(after));
}

}  // namespace hugepool
