#include "daemon/service/client_calls.h"

#include <set>
#include <utility>

#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

std::vector<PageSize> PageSizesOf(const Host& host) {
  std::set<PageSize, std::greater<>> sizes;
  for (const auto& pool : host.pools()) sizes.insert(pool->page_size);
  return {sizes.begin(), sizes.end()};
}

}  // namespace

ClientCalls::ClientCalls(LeaseManager* manager, const Host& host,
                         const Domains* domains)
    : manager_(manager), domains_(domains), page_sizes_(PageSizesOf(host)) {}

void ClientCalls::Acquire(SessionId session, const v1::AcquireRequest& request,
                          AcquireDone done) {
  auto spec = SpecFromWire(request, page_sizes_);
  if (!spec.ok()) return done(spec.status());
  manager_->Acquire(
      session, *std::move(spec),
      [done = std::move(done), domains = domains_](
          absl::StatusOr<LeaseManager::Granted> granted) {
        if (!granted.ok()) return done(granted.status());
        v1::AcquireResponse reply;
        *reply.mutable_lease() = ToWire(granted->lease, *domains);
        reply.set_frames(granted->frames);
        *reply.mutable_waited() = ToWire(granted->waited);
        done(std::move(reply));
      });
}

void ClientCalls::Attach(SessionId session, const v1::AttachRequest& request,
                         AttachDone done) {
  if (request.which_case() == v1::AttachRequest::WHICH_NOT_SET ||
      request.request_id().empty()) {
    return done(Refuse(RefusalReason::kBadRequest,
                       "an Attach without a request_id, or without a name or "
                       "id",
                       "give a request_id, and name or lease_id"));
  }
  manager_->Attach(
      session, request.request_id(), LeaseIdFromWire(request.lease_id()),
      request.name(),
      [done = std::move(done), domains = domains_](
          absl::StatusOr<LeaseManager::Granted> granted) {
        if (!granted.ok()) return done(granted.status());
        v1::AttachResponse reply;
        *reply.mutable_lease() = ToWire(granted->lease, *domains);
        reply.set_frames(granted->frames);
        done(std::move(reply));
      });
}

absl::StatusOr<v1::ReleaseResponse> ClientCalls::Release(
    const Identity& who, const v1::ReleaseRequest& request) {
  if (request.lease_id().empty() == request.name().empty()) {
    return Refuse(RefusalReason::kBadRequest,
                  "a Release needs either a lease_id or a name",
                  "give one of the two");
  }
  const LeaseId lease = LeaseIdFromWire(request.lease_id());
  std::vector<ReleaseRange> ranges;
  for (const v1::ReleaseRequest::Range& r : request.ranges()) {
    ranges.push_back({r.segment(), Bytes(r.offset()), Bytes(r.size_bytes())});
  }
  HP_ASSIGN_OR_RETURN(
      const Bytes released,
      ranges.empty()
          ? manager_->Release(who, lease, request.name())
          : manager_->ReleaseRanges(who, lease, request.name(), ranges));
  v1::ReleaseResponse reply;
  reply.set_released_bytes(released.value());
  return reply;
}

}  // namespace hugepool::service
