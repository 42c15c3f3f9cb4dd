// The calls that change something. hugepool_views.cc has those that show.
#include "daemon/service/hugepool_service.h"

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

constexpr char kSessionKey[] = "hugepool-session-bin";

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

absl::StatusOr<Identity> IdentityOf(
    const Identities& identities, const grpc::CallbackServerContext& context) {
  const auto caller = identities.Find(context.peer());
  if (!caller.has_value()) {
    return Refuse(RefusalReason::kNotAllowed,
                  absl::StrCat("nobody knows who calls from ", context.peer()),
                  "this is a fault of the daemon");
  }
  HP_RETURN_IF_ERROR(caller->denied);
  return caller->who;
}

absl::StatusOr<SessionId> HugePoolService::SessionOf(
    const grpc::CallbackServerContext& context) const {
  HP_ASSIGN_OR_RETURN(const Identity who,
                      IdentityOf(*deps_.identities, context));
  if (who.admin) {
    return Refuse(RefusalReason::kNotAllowed,
                  "the admin socket brings no descriptors",
                  "acquire through a listener's grpc.sock and fd.sock");
  }
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kSessionKey);
  return deps_.manager->Authenticate(
      it == metadata.end()
          ? std::string()
          : std::string(it->second.data(), it->second.length()),
      who);
}

HugePoolService::HugePoolService(const Deps& deps, Facts facts)
    : deps_(deps),
      facts_(std::move(facts)),
      page_sizes_([&deps] {
        std::set<PageSize, std::greater<>> sizes;
        for (const auto& pool : deps.host->pools()) {
          sizes.insert(pool->page_size);
        }
        return std::vector<PageSize>(sizes.begin(), sizes.end());
      }()) {}

grpc::ServerUnaryReactor* HugePoolService::Acquire(
    grpc::CallbackServerContext* context, const v1::AcquireRequest* request,
    v1::AcquireResponse* reply) {
  const auto session = SessionOf(*context);
  if (!session.ok()) return Answer(context, session.status());
  auto spec = SpecFromWire(*request, page_sizes_);
  if (!spec.ok()) return Answer(context, spec.status());
  const auto call = deps_.calls->New(
      [manager = deps_.manager, session = *session, id = spec->request_id] {
        manager->CancelAcquire(session, id);
      });
  // gRPC reports a cancellation only after this returned, so the manager knows
  // the request by then.
  deps_.manager->Acquire(
      *session, *std::move(spec),
      [call, reply,
       domains = deps_.domains](absl::StatusOr<LeaseManager::Granted> granted) {
        call->Answer(granted.status(), [&] {
          *reply->mutable_lease() = ToWire(granted->lease, *domains);
          reply->set_frames(granted->frames);
          *reply->mutable_waited() = ToWire(granted->waited);
        });
      });
  return call->Reactor(context);
}

grpc::ServerUnaryReactor* HugePoolService::Attach(
    grpc::CallbackServerContext* context, const v1::AttachRequest* request,
    v1::AttachResponse* reply) {
  const auto session = SessionOf(*context);
  if (!session.ok()) return Answer(context, session.status());
  if (request->which_case() == v1::AttachRequest::WHICH_NOT_SET ||
      request->request_id().empty()) {
    return Answer(context, Refuse(RefusalReason::kBadRequest,
                                  "an Attach without a request_id, or without "
                                  "a name or id",
                                  "give a request_id, and name or lease_id"));
  }
  const auto call = deps_.calls->New([] {});
  deps_.manager->Attach(
      *session, request->request_id(), LeaseIdFromWire(request->lease_id()),
      request->name(),
      [call, reply,
       domains = deps_.domains](absl::StatusOr<LeaseManager::Granted> granted) {
        call->Answer(granted.status(), [&] {
          *reply->mutable_lease() = ToWire(granted->lease, *domains);
          reply->set_frames(granted->frames);
        });
      });
  return call->Reactor(context);
}

absl::Status HugePoolService::DoRelease(
    const grpc::CallbackServerContext& context,
    const v1::ReleaseRequest& request, v1::ReleaseResponse* reply) {
  HP_ASSIGN_OR_RETURN(const Identity who,
                      IdentityOf(*deps_.identities, context));
  if (request.ranges_size() > 0) {
    return absl::UnimplementedError(
        "parts of a lease cannot be released yet: release the whole lease");
  }
  if (request.lease_id().empty() == request.name().empty()) {
    return Refuse(RefusalReason::kBadRequest,
                  "a Release needs either a lease_id or a name",
                  "give one of the two");
  }
  HP_ASSIGN_OR_RETURN(
      const Bytes released,
      deps_.manager->Release(who, LeaseIdFromWire(request.lease_id()),
                             request.name()));
  reply->set_released_bytes(released.value());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* HugePoolService::Release(
    grpc::CallbackServerContext* context, const v1::ReleaseRequest* request,
    v1::ReleaseResponse* reply) {
  return Answer(context, DoRelease(*context, *request, reply));
}

grpc::ServerUnaryReactor* HugePoolService::GetLease(
    grpc::CallbackServerContext* context, const v1::GetLeaseRequest* request,
    v1::GetLeaseResponse* reply) {
  return Answer(context, DoGetLease(*context, *request, reply));
}

grpc::ServerUnaryReactor* HugePoolService::ListLeases(
    grpc::CallbackServerContext* context, const v1::ListLeasesRequest* request,
    v1::ListLeasesResponse* reply) {
  return Answer(context, DoList(*context, *request, reply));
}

grpc::ServerUnaryReactor* HugePoolService::GetStatus(
    grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
    v1::GetStatusResponse* reply) {
  return Answer(context, DoStatus(*context, reply));
}

}  // namespace hugepool::service
