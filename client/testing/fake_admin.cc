#include "client/testing/fake_admin.h"

namespace hugepool::testing {
namespace {

class FakeAdmin final : public v1::HugePoolAdmin::Service {
 public:
  grpc::Status GetConfig(grpc::ServerContext*, const v1::GetConfigRequest*,
                         v1::GetConfigResponse* response) override {
    response->set_yaml("pools:\n  - page_size: 2MiB\n");
    return grpc::Status::OK;
  }
  grpc::Status SetPoolTarget(grpc::ServerContext*,
                             const v1::SetPoolTargetRequest* request,
                             v1::SetPoolTargetResponse* response) override {
    v1::PoolStatus* const pool = response->mutable_pool();
    pool->set_node(request->pool().node());
    pool->set_page_size(request->pool().page_size());
    pool->set_target_bytes(request->target_bytes());
    return grpc::Status::OK;
  }
  grpc::Status Reclaim(grpc::ServerContext*, const v1::ReclaimRequest* request,
                       v1::ReclaimResponse* response) override {
    response->set_reclaimed_bytes(request->bytes());
    return grpc::Status::OK;
  }
  grpc::Status Verify(grpc::ServerContext*, const v1::VerifyRequest*,
                      v1::VerifyResponse* response) override {
    response->set_verified_bytes(1 << 30);
    response->set_stray_bytes(1);
    return grpc::Status::OK;
  }
  grpc::Status SetTuning(grpc::ServerContext*,
                         const v1::SetTuningRequest* request,
                         v1::SetTuningResponse*) override {
    const bool right = request->no_cap() ||
                       request->bandwidth_gb_per_second() == 8.589934592 ||
                       request->no_pressure_limit() ||
                       request->pressure_limit_percent() == 25;
    return right ? grpc::Status::OK
                 : MakeStatus(absl::StatusCode::kInvalidArgument,
                              "neither 8 GiB nor 25%", {});
  }
  grpc::Status RevokeLease(grpc::ServerContext*,
                           const v1::RevokeLeaseRequest* request,
                           v1::RevokeLeaseResponse*) override {
    v1::ErrorDetail detail;
    detail.set_reason(v1::ERROR_REASON_NOT_ALLOWED);
    if (request->kill()) return grpc::Status::OK;
    return MakeStatus(absl::StatusCode::kPermissionDenied, "sealed", detail);
  }
  grpc::Status ReloadConfig(grpc::ServerContext*,
                            const v1::ReloadConfigRequest*,
                            v1::ReloadConfigResponse* response) override {
    response->add_errors("f.yaml:3: pools[0].low: too high");
    return grpc::Status::OK;
  }
};

}  // namespace

std::unique_ptr<v1::HugePoolAdmin::Service> MakeFakeAdmin() {
  return std::make_unique<FakeAdmin>();
}

grpc::Status MakeStatus(absl::StatusCode code, const std::string& text,
                        const v1::ErrorDetail& detail) {
  return grpc::Status(static_cast<grpc::StatusCode>(code), text,
                      detail.SerializeAsString());
}

}  // namespace hugepool::testing
