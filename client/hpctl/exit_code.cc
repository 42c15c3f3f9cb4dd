#include "client/hpctl/exit_code.h"

#include <string>

#include "absl/status/status.h"
#include "client/hpctl/json_output.h"
#include "client/internal/errors.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
      return client::IsTransportFailure(status) ? kExitNoDaemon : kExitShort;
    case absl::StatusCode::kDeadlineExceeded:
      return client::ReasonOf(status) == v1::ERROR_REASON_WAIT_EXPIRED
                 ? kExitWaitExpired
                 : kExitNoDaemon;
    case absl::StatusCode::kResourceExhausted:
      return kExitShort;
    case absl::StatusCode::kFailedPrecondition:
      return client::ReasonOf(status) == v1::ERROR_REASON_NEVER_FITS
                 ? kExitShort
                 : kExitFailed;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitDenied;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      return kExitFailed;
  }
}

int Report(const Globals& globals, const absl::Status& status) {
  const int code = ExitCodeOf(status);
  if (status.ok()) return code;
  std::string message(status.message());
  if (code == kExitNoDaemon) message = "daemon not running: " + message;
  const auto detail = client::ErrorDetailOf(status);
  if (globals.json) {
    PrintErrorJson(*globals.err, absl::StatusCodeToString(status.code()),
                   message, detail);
    return code;
  }
  *globals.err << "hpctl: " << message << "\n";
  if (!detail.has_value()) return code;
  if (detail->wanted_bytes() != 0) {
    *globals.err << "  wanted " << Bytes(detail->wanted_bytes())
                 << ", available " << Bytes(detail->available_bytes()) << "\n";
  }
  if (!detail->hint().empty()) {
    *globals.err << "  " << detail->hint() << "\n";
  }
  return code;
}

}  // namespace hugepool::hpctl
