#include "daemon/base/refusal.h"

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/views.h"

namespace hugepool {
namespace {

constexpr char kPayload[] = "hugepool/refusal";

}  // namespace

absl::StatusCode CodeOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kPoolShort:
    case RefusalReason::kQuota:
    case RefusalReason::kTooManyExtents:
      return absl::StatusCode::kResourceExhausted;
    case RefusalReason::kNeverFits:
    case RefusalReason::kNoFdChannel:
    case RefusalReason::kWrongVersion:
      return absl::StatusCode::kFailedPrecondition;
    case RefusalReason::kUnknownPageSize:
    case RefusalReason::kNoSuchNode:
    case RefusalReason::kBadRequest:
    case RefusalReason::kBadFrame:
      return absl::StatusCode::kInvalidArgument;
    case RefusalReason::kWaitExpired:
      return absl::StatusCode::kDeadlineExceeded;
    case RefusalReason::kNotAllowed:
      return absl::StatusCode::kPermissionDenied;
    case RefusalReason::kDraining:
      return absl::StatusCode::kUnavailable;
    case RefusalReason::kLeaseGone:
      return absl::StatusCode::kNotFound;
    case RefusalReason::kNameTaken:
      return absl::StatusCode::kAlreadyExists;
    case RefusalReason::kInternal:
      break;
  }
  return absl::StatusCode::kInternal;
}

bool Retryable(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kPoolShort:
    case RefusalReason::kQuota:
    case RefusalReason::kWaitExpired:
    case RefusalReason::kDraining:
      return true;
    default:
      return false;
  }
}

absl::Status Refuse(const Refusal& refusal, std::string_view message) {
  absl::Status status(CodeOf(refusal.reason), AbslView(message));
  status.SetPayload(
      kPayload,
      absl::Cord(absl::StrCat(static_cast<int>(refusal.reason), "|",
                              refusal.wanted.value(), "|",
                              refusal.available.value(), "|", refusal.hint)));
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('|', 3));
  int reason = 0;
  uint64_t wanted = 0;
  uint64_t available = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &reason) ||
      !absl::SimpleAtoi(parts[1], &wanted) ||
      !absl::SimpleAtoi(parts[2], &available)) {
    return std::nullopt;
  }
  return Refusal{static_cast<RefusalReason>(reason), Bytes(wanted),
                 Bytes(available), parts[3]};
}

}  // namespace hugepool
