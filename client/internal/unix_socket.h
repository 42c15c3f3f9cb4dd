// Connecting to the daemon's sockets, with errors that say what to do.
#ifndef HUGEPOOL_CLIENT_INTERNAL_UNIX_SOCKET_H_
#define HUGEPOOL_CLIENT_INTERNAL_UNIX_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::client {

// `dir` as an absolute path without a trailing slash. INVALID_ARGUMENT where it
// is empty, or too long for a socket in it (an address holds 107 bytes).
absl::StatusOr<std::string> SocketDirectory(const std::string& dir);

// Connects a SOCK_SEQPACKET socket (close-on-exec, blocking) to `path`.
// UNAVAILABLE: nobody listens there. PERMISSION_DENIED: not for this user.
absl::StatusOr<UniqueFd> ConnectSeqPacket(const std::string& path);

// The status for connect(`path`) having failed with `error_number`.
absl::Status ConnectError(int error_number, const std::string& path);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_UNIX_SOCKET_H_
