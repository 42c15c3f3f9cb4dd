#include "daemon/service/admin_service.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/refusal.h"
#include "daemon/service/hugepool_service.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

// Less would never fill a pool; and more than this is no number of bytes.
constexpr double kLeastGigabytes = 0.001;
constexpr double kMostGigabytes = 1e9;

// What an admin wants changed; nullopt: left as it is.
struct Tuning {
  std::optional<std::optional<Bytes>> cap;
  std::optional<std::optional<uint32_t>> pressure_limit;
};

absl::StatusOr<std::optional<std::optional<Bytes>>> CapFromWire(
    const v1::SetTuningRequest& request) {
  const double cap = request.bandwidth_gb_per_second();
  if (cap == 0 && !request.no_cap()) return std::nullopt;
  if (cap == 0) return std::make_optional(std::optional<Bytes>());
  // Written so that NaN is refused too.
  if (!request.no_cap() && cap >= kLeastGigabytes && cap <= kMostGigabytes) {
    return std::optional<Bytes>(Bytes(static_cast<uint64_t>(cap * 1e9)));
  }
  return Refuse(RefusalReason::kBadRequest,
                request.no_cap()
                    ? "a bandwidth and no_cap together"
                    : absl::StrCat("a bandwidth of ", cap, " GB/s"),
                "give a bandwidth of at least 0.001 GB/s, or no_cap");
}

absl::StatusOr<std::optional<std::optional<uint32_t>>> LimitFromWire(
    const v1::SetTuningRequest& request) {
  const uint32_t limit = request.pressure_limit_percent();
  if (limit == 0 && !request.no_pressure_limit()) return std::nullopt;
  if (limit == 0) return std::make_optional(std::optional<uint32_t>());
  if (!request.no_pressure_limit() && limit <= 100) {
    return std::optional<uint32_t>(limit);
  }
  return Refuse(RefusalReason::kBadRequest,
                request.no_pressure_limit()
                    ? "a pressure limit and no_pressure_limit together"
                    : absl::StrCat("a pressure limit of ", limit, "%"),
                "give a limit of 1 to 100 percent, or no_pressure_limit");
}

absl::StatusOr<Tuning> FromWire(const v1::SetTuningRequest& request) {
  Tuning tuning;
  HP_ASSIGN_OR_RETURN(tuning.cap, CapFromWire(request));
  HP_ASSIGN_OR_RETURN(tuning.pressure_limit, LimitFromWire(request));
  if (tuning.cap.has_value() || tuning.pressure_limit.has_value()) {
    return tuning;
  }
  return Refuse(
      RefusalReason::kBadRequest, "nothing to tune",
      "give a bandwidth of at least 0.001 GB/s, no_cap, or a pressure "
      "limit");
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

grpc::ServerUnaryReactor* AdminService::SetTuning(
    grpc::CallbackServerContext* context, const v1::SetTuningRequest* request,
    v1::SetTuningResponse*) {
  absl::Status status = Check(*context);
  if (!status.ok()) return Answer(context, status);
  const auto tuning = FromWire(*request);
  if (!tuning.ok()) return Answer(context, tuning.status());
  if (const auto& cap = tuning->cap; cap.has_value()) {
    acts_.set_bandwidth(*cap);
    Log(LogLevel::kInfo,
        absl::StrCat("background zeroing: ",
                     cap->has_value()
                         ? absl::StrCat((*cap)->value(), " bytes/s")
                         : std::string("no cap"),
                     ", by an admin"));
  }
  if (const auto& limit = tuning->pressure_limit; limit.has_value()) {
    acts_.set_pressure_limit(*limit);
    Log(LogLevel::kInfo,
        absl::StrCat("background zeroing: ",
                     limit->has_value() ? absl::StrCat("backs off above ",
                                                       **limit, "% of pressure")
                                        : std::string("no limit of pressure"),
                     ", by an admin"));
  }
  return Answer(context, absl::OkStatus());
}

absl::StatusOr<std::vector<Pool*>> AdminService::PoolsOf(
    const v1::PoolSelector& selector) const {
  const auto size = PageSize::FromBytes(Bytes(selector.page_size()));
  if (size.has_value()) {
    Pool* const pool = host_->Find(NodeId(selector.node()), *size);
    if (pool != nullptr) return std::vector<Pool*>{pool};
  }
  std::string there_are;
  for (const auto& pool : host_->pools()) {
    absl::StrAppend(&there_are, there_are.empty() ? "" : ", ",
                    ToString(pool->page_size), " on node ",
                    pool->node.value());
  }
  return Refuse(RefusalReason::kUnknownPageSize,
                absl::StrCat("there is no pool of pages of ",
                             selector.page_size(), " bytes on node ",
                             selector.node()),
                absl::StrCat("pools: ", there_are));
}

grpc::ServerUnaryReactor* AdminService::Verify(
    grpc::CallbackServerContext* context, const v1::VerifyRequest* request,
    v1::VerifyResponse* reply) {
  const absl::Status allowed = Check(*context);
  if (!allowed.ok()) return Answer(context, allowed);
  std::vector<Pool*> pools;
  if (request->has_pool()) {
    auto one = PoolsOf(request->pool());
    if (!one.ok()) return Answer(context, one.status());
    pools = *std::move(one);
  } else {
    for (const auto& pool : host_->pools()) pools.push_back(pool.get());
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  acts_.verify(pools, [reactor, reply](auto result) {
    if (result.ok()) {
      reply->set_verified_bytes(result->verified.value());
      reply->set_stray_bytes(result->stray);
    }
    reactor->Finish(ToGrpc(result.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::RevokeLease(
    grpc::CallbackServerContext* context,
    const v1::RevokeLeaseRequest* request, v1::RevokeLeaseResponse* reply) {
  const absl::Status allowed = Check(*context);
  if (!allowed.ok()) return Answer(context, allowed);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  acts_.revoke({LeaseIdFromWire(request->lease_id()), request->kill(),
                absl::Milliseconds(request->notice_ms())},
               [reactor, reply](absl::StatusOr<Revoker::Outcome> outcome) {
                 if (outcome.ok()) {
                   reply->set_revoked_bytes(outcome->bytes.value());
                   reply->set_killed(outcome->killed);
                 }
                 reactor->Finish(ToGrpc(outcome.status()));
               });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetConfig(
    grpc::CallbackServerContext* context, const v1::GetConfigRequest*,
    v1::GetConfigResponse* reply) {
  const absl::Status allowed = Check(*context);
  if (allowed.ok()) reply->set_yaml(acts_.config_yaml());
  return Answer(context, allowed);
}

}  // namespace hugepool::service
