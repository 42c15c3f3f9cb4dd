// What the kernel tells about the other end of a Unix socket, and who may
// connect.
#ifndef HUGEPOOL_DAEMON_SERVICE_PEER_H_
#define HUGEPOOL_DAEMON_SERVICE_PEER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::service {

// The process that called connect(), as it was then.
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // 0: not visible from here (another pid namespace)
  std::vector<gid_t> groups;  // supplementary ones
};

// Who may connect besides root and the daemon's own user.
struct AccessRule {
  std::optional<gid_t> group;
  bool any = false;  // everybody
};

// SO_PEERCRED and SO_PEERGROUPS of a connected socket.
absl::StatusOr<Peer> PeerOf(int socket);

// A descriptor that becomes readable when the peer's process is dead:
// SO_PEERPIDFD where the kernel has it (6.5), else by its pid. Invalid where
// neither can be had.
UniqueFd PidfdOf(int socket, pid_t pid);

// NOT_ALLOWED, with a hint that names the group, unless `peer` may connect. The
// modes of the socket files say the same; this holds where a file system or a
// bind mount lost them. `where` is the directory, for the message.
absl::Status CheckAccess(const AccessRule& rule, const Peer& peer,
                         uid_t daemon_uid, const std::string& where);

// Refuses descriptors from clients on this socket, where the kernel can (6.16):
// one that is sent could block the thread that closes it.
void RefuseDescriptors(int socket);

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_PEER_H_
