#include "daemon/base/errno_status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/views.h"

namespace hugepool {
namespace {

constexpr absl::string_view kErrnoPayload = "hugepool/errno";

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::ErrnoToStatusCode(error_number);
  }
}

}  // namespace

absl::Status ErrnoToStatus(int error_number, std::string_view what) {
  absl::Status status(
      CodeOf(error_number),
      absl::StrCat(AbslView(what), ": ", std::strerror(error_number),
                   " (errno ", error_number, ")"));
  status.SetPayload(kErrnoPayload, absl::Cord(absl::StrCat(error_number)));
  return status;
}

int ErrnoOf(const absl::Status& status) {
  int value = 0;
  if (auto payload = status.GetPayload(kErrnoPayload); payload.has_value()) {
    if (!absl::SimpleAtoi(std::string(*payload), &value)) return 0;
  }
  return value;
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  absl::Status out(status.code(),
                   absl::StrCat(AbslView(prefix), ": ", status.message()));
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& value) {
    out.SetPayload(url, value);
  });
  return out;
}

}  // namespace hugepool
