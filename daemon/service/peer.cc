#include "daemon/service/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"

// Newer than Debian 12's headers.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace hugepool::service {
namespace {

// The kernel's NGROUPS_MAX.
constexpr size_t kMaxGroups = 65'536;

std::string GroupName(gid_t gid) {
  group entry = {};
  group* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  if (getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return absl::StrCat("group ", found->gr_name);
  }
  return absl::StrCat("group ", gid);
}

}  // namespace

absl::StatusOr<Peer> PeerOf(int socket) {
  ucred credentials = {};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return ErrnoToStatus(errno, "getsockopt(SO_PEERCRED)");
  }
  Peer peer{credentials.uid, credentials.gid, std::max(credentials.pid, 0), {}};
  peer.groups.resize(32);
  while (true) {
    length = static_cast<socklen_t>(peer.groups.size() * sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(),
                   &length) == 0) {
      peer.groups.resize(length / sizeof(gid_t));
      return peer;
    }
    if (errno != ERANGE || peer.groups.size() >= kMaxGroups) {
      return ErrnoToStatus(errno, "getsockopt(SO_PEERGROUPS)");
    }
    peer.groups.resize(kMaxGroups);
  }
}

UniqueFd PidfdOf(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) {
    return UniqueFd(fd);
  }
  if (errno != ENOPROTOOPT || pid <= 0) return UniqueFd();
  // pidfd_open sets CLOEXEC itself.
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

absl::Status CheckAccess(const AccessRule& rule, const Peer& peer,
                         uid_t daemon_uid, const std::string& where) {
  if (rule.any || peer.uid == 0 || peer.uid == daemon_uid) {
    return absl::OkStatus();
  }
  if (rule.group.has_value() &&
      (peer.gid == *rule.group ||
       std::find(peer.groups.begin(), peer.groups.end(), *rule.group) !=
           peer.groups.end())) {
    return absl::OkStatus();
  }
  return Refuse(
      RefusalReason::kNotAllowed,
      absl::StrCat("uid ", peer.uid, " may not use the sockets in ", where),
      rule.group.has_value()
          ? absl::StrCat("become a member of ", GroupName(*rule.group),
                         ", and log in anew")
          : "only root and the daemon's own user may; the listener has no "
            "group in the configuration");
}

void RefuseDescriptors(int socket) {
  const int off = 0;
  // ENOPROTOOPT on older kernels: then the fd channel closes what comes, on a
  // thread that may block.
  (void)setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
}

}  // namespace hugepool::service
