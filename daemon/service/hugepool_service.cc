// The calls that change something. hugepool_views.cc has those that show.
#include "daemon/service/hugepool_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

constexpr char kSessionKey[] = "hugepool-session-bin";

}  // namespace

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

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
    : deps_(deps), facts_(std::move(facts)) {}

grpc::ServerUnaryReactor* HugePoolService::Acquire(
    grpc::CallbackServerContext* context, const v1::AcquireRequest* request,
    v1::AcquireResponse* reply) {
  const auto session = SessionOf(*context);
  if (!session.ok()) return Answer(context, session.status());
  const auto call = deps_.pending->New(
      [calls = deps_.calls, session = *session, id = request->request_id()] {
        calls->Cancel(session, id);
      });
  // gRPC reports a cancellation only after this returned, so the manager knows
  // the request by then.
  deps_.calls->Acquire(
      *session, *request,
      [call, reply](absl::StatusOr<v1::AcquireResponse> answer) {
        call->Answer(answer.status(), [&] { *reply = *std::move(answer); });
      });
  return call->Reactor(context);
}

grpc::ServerUnaryReactor* HugePoolService::Attach(
    grpc::CallbackServerContext* context, const v1::AttachRequest* request,
    v1::AttachResponse* reply) {
  const auto session = SessionOf(*context);
  if (!session.ok()) return Answer(context, session.status());
  const auto call = deps_.pending->New([] {});
  deps_.calls->Attach(
      *session, *request,
      [call, reply](absl::StatusOr<v1::AttachResponse> answer) {
        call->Answer(answer.status(), [&] { *reply = *std::move(answer); });
      });
  return call->Reactor(context);
}

absl::Status HugePoolService::DoRelease(
    const grpc::CallbackServerContext& context,
    const v1::ReleaseRequest& request, v1::ReleaseResponse* reply) {
  HP_ASSIGN_OR_RETURN(const Identity who,
                      IdentityOf(*deps_.identities, context));
  HP_ASSIGN_OR_RETURN(*reply, deps_.calls->Release(who, request));
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
