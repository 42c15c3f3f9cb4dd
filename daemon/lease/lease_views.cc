// What is shown of leases, and the audit of their books.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/refusal.h"
#include "daemon/lease/after.h"
#include "daemon/lease/lease_manager.h"

namespace hugepool {

const LeaseManager::Entry* LeaseManager::FindVisible(
    const Identity& caller, LeaseId id, const std::string& name) const {
  if (!name.empty()) {
    auto named = by_name_.find({caller.domain, name});
    if (named == by_name_.end()) return nullptr;
    id = named->second;
  }
  auto it = leases_.find(id);
  if (it == leases_.end() || !MaySee(caller, it->second->lease.owner)) {
    return nullptr;
  }
  return it->second.get();
}

absl::StatusOr<Lease> LeaseManager::Get(const Identity& caller, LeaseId id,
                                        const std::string& name) const {
  MutexLock lock(&mu_);
  const Entry* entry = FindVisible(caller, id, name);
  if (entry == nullptr || entry->waiting || entry->starting) {
    return hugepool::Refuse(
        RefusalReason::kLeaseGone,
        absl::StrCat("there is no lease ",
                     name.empty() ? ToWire(id) : absl::StrCat("'", name, "'"),
                     " that the caller may see"),
        "see hpctl lease list");
  }
  return entry->lease;
}

std::vector<Lease> LeaseManager::List(const Identity& caller, LeaseId after,
                                      size_t limit,
                                      std::optional<LeasePhase> phase) const {
  std::vector<Lease> out;
  MutexLock lock(&mu_);
  for (auto it = leases_.upper_bound(after);
       it != leases_.end() && out.size() < limit; ++it) {
    const Entry& entry = *it->second;
    if (entry.waiting || entry.starting || !MaySee(caller, entry.lease.owner)) {
      continue;
    }
    if (phase.has_value() && entry.lease.phase != *phase) continue;
    out.push_back(entry.lease);
  }
  return out;
}

std::vector<LeaseManager::WaitView> LeaseManager::Waits() const {
  std::vector<WaitView> out;
  const auto waits = deps_.host->Waits();
  const absl::Time now = deps_.clock->Now();
  MutexLock lock(&mu_);
  for (const Host::WaitView& w : waits) {
    auto it = leases_.find(w.lease);
    if (it == leases_.end()) continue;
    const Entry& entry = *it->second;
    out.push_back({entry.lease.request_id, entry.lease.owner.domain, w.wanted,
                   w.available, w.position, now - entry.started});
  }
  return out;
}

LeaseManager::Counts LeaseManager::Count() const {
  MutexLock lock(&mu_);
  return {static_cast<uint32_t>(sessions_.size()),
          static_cast<uint32_t>(leases_.size()), fds_in_flight_};
}

absl::Status LeaseManager::CheckInvariants() const {
  MutexLock lock(&mu_);
  const ExtentTable& table = deps_.host->table();
  std::map<SlotId, LeaseId> owner;
  std::map<DomainId, Bytes> charged;
  for (const auto& [id, entry] : leases_) {
    const Lease& lease = entry->lease;
    for (const TakenExtent& e : lease.extents) {
      charged[lease.owner.domain] += e.size - e.gone;
      auto [it, fresh] = owner.emplace(e.slot, id);
      if (!fresh) {
        return absl::InternalError(
            absl::StrCat("slot ", e.slot.value(), " is in ", ToWire(id),
                         " and in ", ToWire(it->second)));
      }
      const ExtentState state = table.state(e.slot);
      const bool lent = state == ExtentState::kGranted ||
                        state == ExtentState::kPreparing ||
                        state == ExtentState::kHeld ||
                        state == ExtentState::kSplitting ||
                        state == ExtentState::kReturning ||
                        state == ExtentState::kProbing;
      // Its news may be on the way: then the slot has lost its lease already.
      const bool news_coming = lease.phase == LeasePhase::kReturning ||
                               lease.lifetime == Lifetime::kMemory;
      if ((!lent || table.lease(e.slot) != id) && !news_coming) {
        return absl::InternalError(absl::StrCat(
            ToWire(id), " has slot ", e.slot.value(), ", but the ledger says ",
            ToString(state), " of ", ToWire(table.lease(e.slot))));
      }
    }
  }
  for (const auto& [id, entry] : leases_) {
    if ((entry->preparing > 0 || !entry->reading.empty()) && !entry->sending) {
      return absl::InternalError(
          absl::StrCat(ToWire(id), " is prepared but not being sent"));
    }
  }
  for (const DomainView& d : deps_.domains->Views()) {
    if (d.charged != charged[d.id]) {
      return absl::InternalError(
          absl::StrCat("domain ", d.name, " is charged ", ToString(d.charged),
                       ", its leases have ", ToString(charged[d.id])));
    }
  }
  return absl::OkStatus();
}

}  // namespace hugepool
