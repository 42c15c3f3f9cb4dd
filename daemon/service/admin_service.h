// The admin service of admin.proto.
#ifndef HUGEPOOL_DAEMON_SERVICE_ADMIN_SERVICE_H_
#define HUGEPOOL_DAEMON_SERVICE_ADMIN_SERVICE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/units.h"
#include "daemon/lease/revoker.h"
#include "daemon/pool/host.h"
#include "daemon/service/identities.h"
#include "grpcpp/server_context.h"
#include "hugepool/v1/admin.grpc.pb.h"

namespace hugepool::service {

// What an admin can have done beside the pools. Thread-safe, each; none blocks.
struct AdminActs {
  // The configuration in force, defaults included.
  std::function<std::string()> config_yaml;
  // The cap on background zeroing of each node; nullopt: none.
  std::function<void(std::optional<Bytes> per_second)> set_bandwidth;
  // From which percentage of others' pressure on it backs off; nullopt: never.
  std::function<void(std::optional<uint32_t> percent)> set_pressure_limit;
  // Looks at the clean memory of `pools`; calls back once, from any thread.
  std::function<void(
      const std::vector<Pool*>& pools,
      std::function<void(absl::StatusOr<Pool::VerifyResult>)> done)>
      verify;
  // Takes a lease from its holders; calls back once, from any thread.
  std::function<void(const Revoker::Order& order, Revoker::Done done)> revoke;
};

// Thread-safe. Answers on connections of admin.sock only; elsewhere every method
// is PERMISSION_DENIED.
class AdminService : public v1::HugePoolAdmin::CallbackService {
 public:
  AdminService(Host* host, const Identities* identities, AdminActs acts)
      : host_(host), identities_(identities), acts_(std::move(acts)) {}

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* reply) override;
  grpc::ServerUnaryReactor* GetConfig(grpc::CallbackServerContext* context,
                                      const v1::GetConfigRequest* request,
                                      v1::GetConfigResponse* reply) override;
  grpc::ServerUnaryReactor* SetTuning(grpc::CallbackServerContext* context,
                                      const v1::SetTuningRequest* request,
                                      v1::SetTuningResponse* reply) override;

  grpc::ServerUnaryReactor* Verify(grpc::CallbackServerContext* context,
                                   const v1::VerifyRequest* request,
                                   v1::VerifyResponse* reply) override;

  grpc::ServerUnaryReactor* RevokeLease(
      grpc::CallbackServerContext* context,
      const v1::RevokeLeaseRequest* request,
      v1::RevokeLeaseResponse* reply) override;

  // Refused as UNIMPLEMENTED today.
  grpc::ServerUnaryReactor* SetPoolTarget(
      grpc::CallbackServerContext* context, const v1::SetPoolTargetRequest*,
      v1::SetPoolTargetResponse*) override {
    return NotYet(context, "SetPoolTarget");
  }
  grpc::ServerUnaryReactor* Reclaim(grpc::CallbackServerContext* context,
                                    const v1::ReclaimRequest*,
                                    v1::ReclaimResponse*) override {
    return NotYet(context, "Reclaim");
  }
  grpc::ServerUnaryReactor* Demote(grpc::CallbackServerContext* context,
                                   const v1::DemoteRequest*,
                                   v1::DemoteResponse*) override {
    return NotYet(context, "Demote");
  }
  grpc::ServerUnaryReactor* ReloadConfig(grpc::CallbackServerContext* context,
                                         const v1::ReloadConfigRequest*,
                                         v1::ReloadConfigResponse*) override {
    return NotYet(context, "ReloadConfig");
  }

 private:
  // The one that `selector` names. UNKNOWN_PAGE_SIZE, listing what there is, where
  // there is none.
  absl::StatusOr<std::vector<Pool*>> PoolsOf(
      const v1::PoolSelector& selector) const;
  // NOT_ALLOWED unless the call came through the admin socket.
  absl::Status Check(const grpc::CallbackServerContext& context) const;
  grpc::ServerUnaryReactor* NotYet(grpc::CallbackServerContext* context,
                                   const char* method) const;

  Host* const host_;
  const Identities* const identities_;
  const AdminActs acts_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_ADMIN_SERVICE_H_
