// How errors travel through the client library: an absl::Status that can carry
// the daemon's ErrorDetail.
#ifndef HUGEPOOL_CLIENT_INTERNAL_ERRORS_H_
#define HUGEPOOL_CLIENT_INTERNAL_ERRORS_H_

#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "hugepool/v1/fdchannel.pb.h"
#include "hugepool/v1/types.pb.h"

namespace hugepool::client {

// A failed call as a status. The daemon sends the bytes of an ErrorDetail in
// the binary error details; they become a payload. OK stays OK.
absl::Status FromGrpc(const grpc::Status& status);

// The same of a call's answer on the fd channel, merged if it came in parts.
absl::Status FromAnswer(const v1::Answer& answer);

// `status` with `detail` attached. OK stays OK.
absl::Status WithDetail(absl::Status status, const v1::ErrorDetail& detail);

// The detail attached to `status`, if any. A status made by the client itself
// has none, unless it says so.
std::optional<v1::ErrorDetail> ErrorDetailOf(const absl::Status& status);

// The reason in the detail; UNSPECIFIED where there is none.
v1::ErrorReason ReasonOf(const absl::Status& status);

// True for an UNAVAILABLE that comes from the transport and not from a daemon:
// nobody listens, or the connection broke. The same call can be made again.
bool IsTransportFailure(const absl::Status& status);

// True where the daemon answered that it did not do what was asked. Anything
// else (no answer, an internal error) can come after it was done.
bool IsRefusal(const absl::Status& status);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_ERRORS_H_
