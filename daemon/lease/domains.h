// Trust domains: who may hand memory on to whom without the kernel between,
// and what each is charged.
#ifndef HUGEPOOL_DAEMON_LEASE_DOMAINS_H_
#define HUGEPOOL_DAEMON_LEASE_DOMAINS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/base/units.h"
#include "daemon/extent/ids.h"

namespace hugepool {

struct DomainPolicy {
  bool in_place = false;  // returned memory may be cleared in place
  Bytes quota;            // 0: none
};

struct DomainView {
  DomainId id;
  std::string name;
  DomainPolicy policy;
  Bytes charged;  // leased, and returning: memory that somebody keeps is charged
  uint32_t leases = 0;
};

// Thread-safe. A leaf lock: nothing else is called under it.
class Domains {
 public:
  Domains(const DomainPolicy& by_default,
          const std::map<std::string, DomainPolicy>& by_name);

  // The domain of that name, made when it is new ("uid:1000", "tenants-a").
  DomainId Find(std::string_view name);
  std::string NameOf(DomainId id) const;
  DomainPolicy PolicyOf(DomainId id) const;

  // Adds `bytes` to the domain's charge, or QUOTA with the figures.
  absl::Status Charge(DomainId id, Bytes bytes);
  void Discharge(DomainId id, Bytes bytes);
  // Beyond the quota, if it must be: its holders took them without asking.
  void ChargeAnyway(DomainId id, Bytes bytes);
  // Whether Charge would succeed now.
  absl::Status MayCharge(DomainId id, Bytes bytes) const;
  void CountLease(DomainId id, int change);

  std::vector<DomainView> Views() const;

 private:
  absl::Status MayChargeLocked(DomainId id, Bytes bytes) const
      HP_REQUIRES(mu_);

  const DomainPolicy default_;
  const std::map<std::string, DomainPolicy> by_name_;
  mutable Mutex mu_;
  std::map<std::string, DomainId, std::less<>> ids_ HP_GUARDED_BY(mu_);
  std::vector<DomainView> views_ HP_GUARDED_BY(mu_);  // index: id - 1
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_DOMAINS_H_
