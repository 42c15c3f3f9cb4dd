// The calls that show something.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/service/hugepool_service.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

constexpr uint32_t kDefaultPage = 500;
constexpr uint32_t kMaxPage = 1000;
// A page ends here too: gRPC's default limit of a message is 4 MiB, and one
// lease can have 512 extents.
constexpr size_t kMaxPageBytes = 2 << 20;
// Leases asked for at a time; a copy of each is made.
constexpr size_t kBatch = 100;

// Bytes that have ended leases but are not back, by domain.
std::map<DomainId, Bytes> ReturningByDomain(const LeaseManager& manager) {
  Identity all;
  all.admin = true;
  std::map<DomainId, Bytes> sums;
  LeaseId after;
  while (true) {
    const auto leases =
        manager.List(all, after, kBatch, LeasePhase::kReturning);
    for (const Lease& lease : leases) {
      sums[lease.owner.domain] += lease.size();
      after = lease.id;
    }
    if (leases.size() < kBatch) return sums;
  }
}

v1::ZeroingStatus ToWire(const ZeroingFacts& facts) {
  v1::ZeroingStatus out;
  out.set_node(facts.node.value());
  out.set_stores(facts.stores);
  out.set_stores_bytes_per_second(static_cast<uint64_t>(facts.stores_rate));
  out.set_zero_threads(static_cast<uint32_t>(facts.zero_threads));
  out.set_zero_bytes_per_second(static_cast<uint64_t>(facts.zero_rate));
  out.set_populate_threads(static_cast<uint32_t>(facts.populate_threads));
  out.set_populate_bytes_per_second(static_cast<uint64_t>(facts.populate_rate));
  out.set_background_share(facts.background_share);
  out.set_background_bytes_per_second(
      facts.background_cap.value_or(Bytes(0)).value());
  if (facts.pressure.has_value()) out.set_pressure_percent(*facts.pressure);
  return out;
}

}  // namespace

absl::Status HugePoolService::DoGetLease(
    const grpc::CallbackServerContext& context,
    const v1::GetLeaseRequest& request, v1::GetLeaseResponse* reply) {
  HP_ASSIGN_OR_RETURN(const Identity who,
                      IdentityOf(*deps_.identities, context));
  if (request.lease_id().empty() == request.name().empty()) {
    return Refuse(RefusalReason::kBadRequest,
                  "a GetLease needs either a lease_id or a name",
                  "give one of the two");
  }
  HP_ASSIGN_OR_RETURN(const Lease lease,
                      deps_.manager->Get(who,
                                         LeaseIdFromWire(request.lease_id()),
                                         request.name()));
  *reply->mutable_lease() = ToWire(lease, *deps_.domains);
  return absl::OkStatus();
}

absl::Status HugePoolService::DoList(const grpc::CallbackServerContext& context,
                                     const v1::ListLeasesRequest& request,
                                     v1::ListLeasesResponse* reply) {
  HP_ASSIGN_OR_RETURN(const Identity who,
                      IdentityOf(*deps_.identities, context));
  HP_ASSIGN_OR_RETURN(const std::optional<LeasePhase> phase,
                      PhaseFromWire(request.state()));
  LeaseId after;
  if (!request.page_token().empty()) {
    after = LeaseIdFromWire(request.page_token());
    if (!after.valid()) {
      return Refuse(RefusalReason::kBadRequest,
                    absl::StrCat("'", request.page_token(),
                                 "' is no page token of this daemon"),
                    "use next_page_token of the last answer");
    }
  }
  const size_t limit = request.page_size() == 0
                           ? kDefaultPage
                           : std::min(request.page_size(), kMaxPage);
  size_t count = 0;
  size_t bytes = 0;
  while (true) {
    // One more than fits: whether there is a next page.
    const size_t batch = std::min(kBatch, limit - count + 1);
    const auto leases = deps_.manager->List(who, after, batch, phase);
    for (const Lease& lease : leases) {
      if (count == limit || bytes >= kMaxPageBytes) {
        reply->set_next_page_token(hugepool::ToWire(after));
        return absl::OkStatus();
      }
      v1::Lease* const out = reply->add_leases();
      *out = ToWire(lease, *deps_.domains);
      bytes += out->ByteSizeLong();
      ++count;
      after = lease.id;
    }
    if (leases.size() < batch) return absl::OkStatus();
  }
}

absl::Status HugePoolService::DoStatus(
    const grpc::CallbackServerContext& context, v1::GetStatusResponse* reply) {
  HP_ASSIGN_OR_RETURN(const Identity who,
                      IdentityOf(*deps_.identities, context));
  reply->set_version(facts_.version);
  reply->set_backend(facts_.backend);
  reply->set_probe(facts_.probe);
  *reply->mutable_started() = ToWire(facts_.started);
  for (const auto& pool : deps_.host->pools()) {
    *reply->add_pools() = ToWire(pool->Snapshot());
  }
  // Other domains' names and waits are no business of a client.
  const auto shown = [&](DomainId domain) {
    return who.admin || domain == who.domain;
  };
  const auto returning = ReturningByDomain(*deps_.manager);
  for (const DomainView& domain : deps_.domains->Views()) {
    if (!shown(domain.id)) continue;
    const auto it = returning.find(domain.id);
    *reply->add_domains() =
        ToWire(domain, it == returning.end() ? Bytes(0) : it->second);
  }
  for (const LeaseManager::WaitView& wait : deps_.manager->Waits()) {
    if (shown(wait.domain)) *reply->add_waits() = ToWire(wait, *deps_.domains);
  }
  const LeaseManager::Counts counts = deps_.manager->Count();
  reply->set_sessions(counts.sessions);
  reply->set_leases(counts.leases);
  reply->set_descriptors_in_flight(counts.descriptors_in_flight);
  if (facts_.descriptor_limit) {
    reply->set_descriptor_limit(facts_.descriptor_limit());
  }
  reply->set_ready(facts_.ready ? facts_.ready() : true);
  if (facts_.deferred) {
    for (const auto& [node, stats] : facts_.deferred()) {
      v1::DeferredStatus* const out = reply->add_deferred();
      out->set_node(node.value());
      out->set_extents(stats.length);
      out->set_releases(stats.adds);
      out->set_early_exits(stats.early_exits);
      out->set_locks(stats.locks);
      out->set_contended(stats.contended);
    }
  }
  if (facts_.zeroing) {
    for (const ZeroingFacts& facts : facts_.zeroing()) {
      *reply->add_zeroing() = ToWire(facts);
    }
  }
  if (facts_.warnings) {
    for (std::string& warning : facts_.warnings()) {
      reply->add_warnings(std::move(warning));
    }
  }
  return absl::OkStatus();
}

grpc::ServerWriteReactor<v1::Event>* HugePoolService::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  const auto who = IdentityOf(*deps_.identities, *context);
  if (!who.ok()) return EventHub::Refused(who.status());
  EventFilter filter;
  if (request->leases() || request->pools() || request->waits()) {
    filter.leases = request->leases();
    filter.pools = request->pools();
    filter.waits = request->waits();
  }
  filter.all_domains = who->admin;
  filter.domain = who->domain;
  return deps_.hub->Watch(context, filter);
}

}  // namespace hugepool::service
