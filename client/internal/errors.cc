#include "client/internal/errors.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"

namespace hugepool::client {
namespace {

constexpr char kDetailUrl[] = "type.googleapis.com/hugepool.v1.ErrorDetail";

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The numbers of gRPC's codes are those of absl's.
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()),
                   status.error_message());
  v1::ErrorDetail detail;
  if (!status.error_details().empty() &&
      detail.ParseFromString(status.error_details())) {
    out.SetPayload(kDetailUrl, absl::Cord(status.error_details()));
  }
  return out;
}

absl::Status FromAnswer(const v1::Answer& answer) {
  if (answer.code() == 0) return absl::OkStatus();
  absl::Status out(static_cast<absl::StatusCode>(answer.code()), answer.text());
  return answer.has_error() ? WithDetail(std::move(out), answer.error()) : out;
}

absl::Status WithDetail(absl::Status status, const v1::ErrorDetail& detail) {
  status.SetPayload(kDetailUrl, absl::Cord(detail.SerializeAsString()));
  return status;
}

std::optional<v1::ErrorDetail> ErrorDetailOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailUrl);
  if (!payload.has_value()) return std::nullopt;
  v1::ErrorDetail detail;
  if (!detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

v1::ErrorReason ReasonOf(const absl::Status& status) {
  const auto detail = ErrorDetailOf(status);
  return detail ? detail->reason() : v1::ERROR_REASON_UNSPECIFIED;
}

bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return true;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      // Without a detail they can be gRPC's own.
      return ErrorDetailOf(status).has_value();
    default:
      return false;
  }
}

bool IsTransportFailure(const absl::Status& status) {
  return absl::IsUnavailable(status) && !ErrorDetailOf(status).has_value();
}

}  // namespace hugepool::client
