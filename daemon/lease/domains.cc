#include "daemon/lease/domains.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/refusal.h"

namespace hugepool {

Domains::Domains(const DomainPolicy& by_default,
                 const std::map<std::string, DomainPolicy>& by_name)
    : default_(by_default), by_name_(by_name) {}

DomainId Domains::Find(std::string_view name) {
  MutexLock lock(&mu_);
  auto it = ids_.find(name);
  if (it != ids_.end()) return it->second;
  const DomainId id(static_cast<uint32_t>(views_.size() + 1));
  DomainView view;
  view.id = id;
  view.name = std::string(name);
  auto policy = by_name_.find(view.name);
  view.policy = policy == by_name_.end() ? default_ : policy->second;
  ids_.emplace(view.name, id);
  views_.push_back(std::move(view));
  return id;
}

std::string Domains::NameOf(DomainId id) const {
  MutexLock lock(&mu_);
  return id.valid() && id.value() <= views_.size()
             ? views_[id.value() - 1].name
             : std::string();
}

DomainPolicy Domains::PolicyOf(DomainId id) const {
  MutexLock lock(&mu_);
  return id.valid() && id.value() <= views_.size()
             ? views_[id.value() - 1].policy
             : default_;
}

absl::Status Domains::MayChargeLocked(DomainId id, Bytes bytes) const {
  const DomainView& d = views_[id.value() - 1];
  if (d.policy.quota.value() == 0 || d.charged + bytes <= d.policy.quota) {
    return absl::OkStatus();
  }
  const Bytes left = d.policy.quota > d.charged ? d.policy.quota - d.charged
                                                : Bytes(0);
  return Refuse(
      Refusal{RefusalReason::kQuota, bytes, left,
              "release leases (memory still mapped after a release counts) or "
              "raise the domain's quota"},
      absl::StrCat("domain ", d.name, " holds ", ToString(d.charged),
                   " of its quota of ", ToString(d.policy.quota), "; ",
                   ToString(bytes), " more are refused"));
}

absl::Status Domains::MayCharge(DomainId id, Bytes bytes) const {
  MutexLock lock(&mu_);
  return MayChargeLocked(id, bytes);
}

absl::Status Domains::Charge(DomainId id, Bytes bytes) {
  MutexLock lock(&mu_);
  absl::Status allowed = MayChargeLocked(id, bytes);
  if (allowed.ok()) views_[id.value() - 1].charged += bytes;
  return allowed;
}

void Domains::Discharge(DomainId id, Bytes bytes) {
  MutexLock lock(&mu_);
  DomainView& d = views_[id.value() - 1];
  HP_CHECK(bytes <= d.charged, "a domain is discharged of what it was charged");
  d.charged -= bytes;
}

void Domains::ChargeAnyway(DomainId id, Bytes bytes) {
  MutexLock lock(&mu_);
  views_[id.value() - 1].charged += bytes;
}

void Domains::CountLease(DomainId id, int change) {
  MutexLock lock(&mu_);
  views_[id.value() - 1].leases += static_cast<uint32_t>(change);
}

std::vector<DomainView> Domains::Views() const {
  MutexLock lock(&mu_);
  return views_;
}

}  // namespace hugepool
