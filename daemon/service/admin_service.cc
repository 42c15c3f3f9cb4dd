#include "daemon/service/admin_service.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/refusal.h"
#include "daemon/service/hugepool_service.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

absl::Status AdminService::Check(
    const grpc::CallbackServerContext& context) const {
  HP_ASSIGN_OR_RETURN(const Identity who, IdentityOf(*identities_, context));
  if (who.admin) return absl::OkStatus();
  return Refuse(RefusalReason::kNotAllowed,
                "the admin service is not served on this socket",
                "use admin.sock (hpctl does); its group is in the "
                "configuration");
}

grpc::ServerUnaryReactor* AdminService::NotYet(
    grpc::CallbackServerContext* context, const char* method) const {
  const absl::Status allowed = Check(*context);
  if (!allowed.ok()) return Answer(context, allowed);
  return Answer(context, absl::UnimplementedError(absl::StrCat(
                             method, ": this daemon cannot do that yet")));
}

grpc::ServerUnaryReactor* AdminService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse*) {
  const absl::Status allowed = Check(*context);
  if (allowed.ok()) {
    host_->SetDraining(request->draining());
    Log(LogLevel::kInfo, request->draining()
                             ? "draining: no new leases, by an admin"
                             : "new leases are allowed again, by an admin");
  }
  return Answer(context, allowed);
}

grpc::ServerUnaryReactor* AdminService::GetConfig(
    grpc::CallbackServerContext* context, const v1::GetConfigRequest*,
    v1::GetConfigResponse* reply) {
  const absl::Status allowed = Check(*context);
  if (allowed.ok()) reply->set_yaml(config_yaml_);
  return Answer(context, allowed);
}

}  // namespace hugepool::service
