#include "client/internal/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

// The longest name of a socket in the directory.
constexpr char kLongestName[] = "/admin.sock";

std::string ErrnoName(int error_number) {
  const char* name = strerrorname_np(error_number);
  return name != nullptr ? name : absl::StrCat("errno ", error_number);
}

}  // namespace

absl::StatusOr<std::string> SocketDirectory(const std::string& dir) {
  if (dir.empty()) {
    return absl::InvalidArgumentError("the socket directory is empty");
  }
  std::string path = dir;
  if (path[0] != '/') {
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof cwd) == nullptr) {
      const int error_number = errno;
      return ErrnoToStatus(error_number, "getcwd");
    }
    path = absl::StrCat(cwd, "/", dir);
  }
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t longest = path.size() + sizeof kLongestName - 1;
  if (longest >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket directory ", path, " is too long: ", path, kLongestName,
        " has ", longest, " bytes, a socket's path has at most ",
        sizeof(sockaddr_un::sun_path) - 1));
  }
  return path;
}

absl::StatusOr<UniqueFd> ConnectSeqPacket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("too long for a socket: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    const int error_number = errno;
    return ErrnoToStatus(error_number, "socket(AF_UNIX)");
  }
  // A daemon that does not read must not hold us up for ever: not in connect
  // (its backlog is full) and not in send.
  const timeval limit = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int rc;
  do {
    rc = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof address);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    const int error_number = errno;
    return ConnectError(error_number, path);
  }
  return fd;
}

absl::Status ConnectError(int error_number, const std::string& path) {
  const std::string tail =
      absl::StrCat(" (connect: ", ErrnoName(error_number), ")");
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
      return absl::UnavailableError(absl::StrCat(
          "no daemon listens at ", path, ": is hugepoold running?", tail));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat("not allowed to connect to ", path,
                       ": is this user in the group of the listener?", tail));
    case EAGAIN:
      return absl::UnavailableError(absl::StrCat(
          "the daemon at ", path, " does not accept connections", tail));
    default:
      return ErrnoToStatus(error_number, absl::StrCat("connect(", path, ")"));
  }
}

}  // namespace hugepool::client
