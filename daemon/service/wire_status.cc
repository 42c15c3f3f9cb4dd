#include <optional>
#include <string>

#include "daemon/base/refusal.h"
#include "daemon/service/wire.h"

namespace hugepool::service {

v1::ErrorDetail DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  if (const auto refusal = RefusalOf(status); refusal.has_value()) {
    detail.set_reason(static_cast<v1::ErrorReason>(refusal->reason));
    detail.set_retryable(Retryable(refusal->reason));
    detail.set_wanted_bytes(refusal->wanted.value());
    detail.set_available_bytes(refusal->available.value());
    detail.set_hint(refusal->hint);
    return detail;
  }
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      detail.set_reason(v1::ERROR_REASON_INTERNAL);
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kResourceExhausted:
      detail.set_retryable(true);
      break;
    default:
      break;
  }
  return detail;
}

std::optional<v1::ErrorDetail> AnswerDetailOf(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  if (absl::IsUnavailable(status) && !RefusalOf(status).has_value()) {
    return std::nullopt;
  }
  return DetailOf(status);
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The numbers of absl's codes are those of gRPC's.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string text(status.message());
  const auto detail = AnswerDetailOf(status);
  if (!detail.has_value()) return grpc::Status(code, text);
  return grpc::Status(code, text, detail->SerializeAsString());
}

}  // namespace hugepool::service
