// Why a request was refused, in a form that programs can act on. Travels as a
// payload of absl::Status from where it is known up to the wire.
#ifndef HUGEPOOL_DAEMON_BASE_REFUSAL_H_
#define HUGEPOOL_DAEMON_BASE_REFUSAL_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/base/units.h"

namespace hugepool {

// The numbers are those of hugepool.v1.ErrorReason; a test compares them.
enum class RefusalReason {
  kPoolShort = 1,
  kQuota = 2,
  kTooManyExtents = 3,
  kNeverFits = 4,
  kNoFdChannel = 5,
  kUnknownPageSize = 6,
  kNoSuchNode = 7,
  kWaitExpired = 8,
  kNotAllowed = 9,
  kDraining = 10,
  kLeaseGone = 11,
  kBadRequest = 12,
  kBadFrame = 13,
  kWrongVersion = 14,
  kNameTaken = 15,
  kInternal = 16,
};

// The status code that goes with a reason.
absl::StatusCode CodeOf(RefusalReason reason);
// Whether the same request may succeed later without any change.
bool Retryable(RefusalReason reason);

struct Refusal {
  RefusalReason reason = RefusalReason::kInternal;
  Bytes wanted;
  Bytes available;
  std::string hint;  // what to do
};

// `message` says what was wrong, with the values; the hint what to do.
absl::Status Refuse(const Refusal& refusal, std::string_view message);
inline absl::Status Refuse(RefusalReason reason, std::string_view message,
                           std::string_view hint = "") {
  return Refuse(Refusal{reason, {}, {}, std::string(hint)}, message);
}

// nullopt for a status that no Refuse() made.
std::optional<Refusal> RefusalOf(const absl::Status& status);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_REFUSAL_H_
