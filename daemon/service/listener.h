// The directory of a listener and the sockets in it.
#ifndef HUGEPOOL_DAEMON_SERVICE_LISTENER_H_
#define HUGEPOOL_DAEMON_SERVICE_LISTENER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/service/peer.h"

namespace hugepool::service {

// Names within the directory.
inline constexpr char kGrpcSocket[] = "grpc.sock";
inline constexpr char kFdSocket[] = "fd.sock";
inline constexpr char kAdminSocket[] = "admin.sock";
inline constexpr char kLockFile[] = "lock";

// A listening socket that is removed again if it is still ours. Not thread-safe.
class Listener {
 public:
  ~Listener() { Close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }
  // No more connections: those that were not accepted see a reset.
  void Close();

 private:
  friend class SocketDir;
  Listener(UniqueFd socket, std::string path, dev_t dev, ino_t ino)
      : socket_(std::move(socket)),
        path_(std::move(path)),
        dev_(dev),
        ino_(ino) {}

  UniqueFd socket_;
  const std::string path_;
  const dev_t dev_;  // of the socket's file
  const ino_t ino_;
};

// One directory of sockets, claimed for this process. Not thread-safe.
//
// Of several daemons on one directory the lock file decides, which the kernel
// releases with its holder, however it dies; so whoever has the lock may
// replace whatever sockets lie there. The lock file is never removed: a process
// could wait on a removed one and believe it had the directory.
class SocketDir {
 public:
  // Makes the directory if it is not there (0700 until Open()) and takes its
  // lock. ALREADY_EXISTS: another process serves it. INVALID_ARGUMENT: the path
  // is not absolute, or too long for a socket's (107 bytes), or others could
  // replace the sockets in it.
  static absl::StatusOr<std::unique_ptr<SocketDir>> Claim(
      const std::string& path);
  SocketDir(const SocketDir&) = delete;
  SocketDir& operator=(const SocketDir&) = delete;

  // A listening socket NAME in the directory, of type SOCK_STREAM or
  // SOCK_SEQPACKET, non-blocking. Appears under its name only when it listens
  // and has its final owner and mode: 0600, 0660 with a group, 0666 for
  // everybody (N50). Replaces a socket that is there.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const char* name, int type,
                                                   const AccessRule& access);

  // Lets clients into the directory, if Claim() made it. After the last
  // Listen().
  absl::Status Open();

  const std::string& path() const { return path_; }

 private:
  SocketDir(std::string path, UniqueFd dir, UniqueFd lock, bool made)
      : path_(std::move(path)),
        dir_(std::move(dir)),
        lock_(std::move(lock)),
        made_(made) {}

  const std::string path_;
  const UniqueFd dir_;
  const UniqueFd lock_;  // locked as long as this lives
  const bool made_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_LISTENER_H_
