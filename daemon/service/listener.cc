#include "daemon/service/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"

namespace hugepool::service {
namespace {

constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
// The kernel cuts it to net.core.somaxconn.
constexpr int kBacklog = 4096;

absl::Status CheckPath(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket directory '", path, "' is not an absolute path",
        absl::StartsWith(path, "@") ? " (abstract sockets are not supported: "
                                      "they have no owner and no mode)"
                                    : ""));
  }
  const std::string longest = absl::StrCat(path, "/", kAdminSocket);
  if (longest.size() > kMaxPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket directory ", path, " is too long: ", longest,
                     " has ", longest.size(), " bytes, a socket's path has at ",
                     "most ", kMaxPath));
  }
  return absl::OkStatus();
}

// The name under which a socket is made; as long as its final one, so that it
// fits wherever that fits.
std::string TemporaryName(std::string_view name) {
  return absl::StrCat(
      ".", absl::string_view(name.data(), name.size() - strlen(".sock")),
      ".new");
}

absl::StatusOr<UniqueFd> TakeLock(int dir, const std::string& path) {
  UniqueFd lock(openat(dir, kLockFile,
                       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string file = absl::StrCat(path, "/", kLockFile);
  if (!lock.valid()) return ErrnoToStatus(errno, absl::StrCat("open ", file));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
    // For people only.
    const std::string text = absl::StrCat(getpid(), "\n");
    if (ftruncate(lock.get(), 0) != 0 ||
        pwrite(lock.get(), text.data(), text.size(), 0) < 0) {
      Log(LogLevel::kDebug, "could not write the process id to the lock file");
    }
    return lock;
  }
  if (errno != EWOULDBLOCK) {
    return ErrnoToStatus(errno, absl::StrCat("flock ", file));
  }
  char text[16] = {};
  const ssize_t n = pread(lock.get(), text, sizeof text - 1, 0);
  std::string who(text, n > 0 ? static_cast<size_t>(n) : 0);
  while (!who.empty() && who.back() == '\n') who.pop_back();
  return absl::AlreadyExistsError(absl::StrCat(
      "another hugepoold serves ", path, " (process ",
      who.empty() ? "unknown" : who, " holds ", file,
      "): stop it first, or configure another directory"));
}

}  // namespace

void Listener::Close() {
  if (!socket_.valid()) return;
  struct stat now = {};
  if (lstat(path_.c_str(), &now) == 0 && now.st_dev == dev_ &&
      now.st_ino == ino_) {
    unlink(path_.c_str());
  }
  socket_.reset();
}

absl::StatusOr<std::unique_ptr<SocketDir>> SocketDir::Claim(
    const std::string& path) {
  HP_RETURN_IF_ERROR(CheckPath(path));
  const bool made = mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) {
    return ErrnoToStatus(errno, absl::StrCat("mkdir ", path));
  }
  UniqueFd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid()) return ErrnoToStatus(errno, absl::StrCat("open ", path));
  struct stat facts = {};
  if (fstat(dir.get(), &facts) != 0) {
    return ErrnoToStatus(errno, absl::StrCat("stat ", path));
  }
  if ((facts.st_mode & S_IWOTH) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("everybody may write to ", path,
                     ", and so could replace the sockets in it: chmod o-w"));
  }
  HP_ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(dir.get(), path));
  return std::unique_ptr<SocketDir>(
      new SocketDir(path, std::move(dir), std::move(lock), made));
}

absl::StatusOr<std::unique_ptr<Listener>> SocketDir::Listen(
    const char* name, int type, const AccessRule& access) {
  const std::string path = absl::StrCat(path_, "/", name);
  const std::string temporary = TemporaryName(name);
  const std::string new_path = absl::StrCat(path_, "/", temporary);
  const auto failed = [&](const char* call) {
    return ErrnoToStatus(errno, absl::StrCat(call, " ", path));
  };
  struct stat facts = {};
  if (fstatat(dir_.get(), name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
      !S_ISSOCK(facts.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is there and is no socket: remove it"));
  }
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return failed("socket");
  RefuseDescriptors(socket.get());  // accepted ones inherit it
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, new_path.data(), new_path.size());
  unlinkat(dir_.get(), temporary.c_str(), 0);  // of a daemon that was killed
  // bind() gives the file the mode of the socket: at no time open to others,
  // whatever the umask.
  if (fchmod(socket.get(), 0600) != 0) return failed("fchmod");
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof address) != 0) {
    return failed("bind");
  }
  const mode_t mode = access.any ? 0666 : access.group ? 0660 : 0600;
  if (access.group.has_value() &&
      fchownat(dir_.get(), temporary.c_str(), static_cast<uid_t>(-1),
               *access.group, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("chown");
  }
  if (fchmodat(dir_.get(), temporary.c_str(), mode, 0) != 0) {
    return failed("chmod");
  }
  if (listen(socket.get(), kBacklog) != 0) return failed("listen");
  if (fstatat(dir_.get(), temporary.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("stat");
  }
  if (renameat(dir_.get(), temporary.c_str(), dir_.get(), name) != 0) {
    return failed("rename");
  }
  return std::unique_ptr<Listener>(
      new Listener(std::move(socket), path, facts.st_dev, facts.st_ino));
}

absl::Status SocketDir::Open() {
  // The sockets' own modes decide who may connect.
  if (made_ && fchmod(dir_.get(), 0755) != 0) {
    return ErrnoToStatus(errno, absl::StrCat("chmod ", path_));
  }
  return absl::OkStatus();
}

}  // namespace hugepool::service
