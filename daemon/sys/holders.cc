#include "daemon/sys/holders.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/unique_fd.h"
#include "daemon/sys/memfd_name.h"
#include "daemon/sys/sysfs.h"

namespace hugepool::sys {
namespace {

// What /proc shows as the path of our files. Inode numbers of other kinds of files
// can be the same, those of hugetlb memfds are not among themselves.
std::string NameInProc() {
  return absl::StrCat("/memfd:", kMemfdName, " (deleted)");
}

std::string ProcDir(pid_t pid) { return absl::StrCat("/proc/", pid); }

// False where it may not be looked into.
bool FindOpen(const std::string& dir, const std::set<InodeId>& inodes,
              std::set<InodeId>* found) {
  const std::string fds = dir + "/fd";
  // By the effective ids and capabilities, as the reading will be.
  if (faccessat(AT_FDCWD, fds.c_str(), R_OK | X_OK, AT_EACCESS) != 0) {
    return errno != EACCES;
  }
  const std::string ours = NameInProc();
  for (const std::string& name : ListDirectory(fds)) {
    const std::string path = absl::StrCat(fds, "/", name);
    char target[64];
    const ssize_t n = readlink(path.c_str(), target, sizeof(target));
    if (n < 0) {
      if (errno == EACCES) return false;
      continue;
    }
    if (std::string(target, static_cast<size_t>(n)) != ours) continue;
    struct stat st = {};
    if (stat(path.c_str(), &st) != 0) continue;
    const InodeId inode(st.st_ino);
    if (inodes.contains(inode)) found->insert(inode);
  }
  return true;
}

// The same.
bool FindMapped(const std::string& dir, const std::set<InodeId>& inodes,
                std::set<InodeId>* found) {
  std::ifstream maps(dir + "/maps");
  if (!maps.is_open()) return errno != EACCES;
  const std::string ours = NameInProc();
  for (std::string line; std::getline(maps, line);) {
    if (!absl::EndsWith(line, ours)) continue;
    std::istringstream fields(line);
    std::string range, mode, offset, device;
    uint64_t number = 0;
    if (!(fields >> range >> mode >> offset >> device >> number)) continue;
    const InodeId inode(number);
    if (inodes.contains(inode)) found->insert(inode);
  }
  return true;
}

struct Look {
  HolderProcess process;
  bool hidden = false;
  bool holds() const {
    return !process.open.empty() || !process.mapped.empty();
  }
};

Look LookAt(pid_t pid, const std::set<InodeId>& inodes) {
  Look look;
  look.process.pid = pid;
  const std::string dir = ProcDir(pid);
  // Each needs other privileges: one may be seen without the other.
  const bool saw_open = FindOpen(dir, inodes, &look.process.open);
  const bool saw_mapped = FindMapped(dir, inodes, &look.process.mapped);
  look.hidden = !saw_open || !saw_mapped;
  if (!look.holds()) return look;
  struct stat st = {};
  if (stat(dir.c_str(), &st) == 0) look.process.uid = st.st_uid;
  std::ifstream comm(dir + "/comm");
  std::getline(comm, look.process.command);
  return look;
}

}  // namespace

Holders::Found ProcHolders::Find(const std::set<InodeId>& inodes) const {
  Found found;
  for (const std::string& name : ListDirectory("/proc")) {
    int32_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || pid == getpid()) continue;
    Look look = LookAt(pid, inodes);
    found.hidden += look.hidden;
    if (look.holds()) found.processes.push_back(std::move(look.process));
  }
  std::sort(found.processes.begin(), found.processes.end(),
            [](const HolderProcess& a, const HolderProcess& b) {
              return a.pid < b.pid;
            });
  return found;
}

absl::Status ProcHolders::Kill(pid_t pid, const std::set<InodeId>& inodes) {
  if (pid <= 1 || pid == getpid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "process ", pid, " is not ended: it is ",
        pid == getpid() ? "the daemon itself" : "the machine's first"));
  }
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    if (errno == ESRCH) return absl::OkStatus();
    return ErrnoToStatus(errno, absl::StrCat("pidfd_open(", pid, ")"));
  }
  // Its number could have become another's between the look and the pidfd.
  if (!LookAt(pid, inodes).holds()) return absl::OkStatus();
  if (syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) != 0 &&
      errno != ESRCH) {
    return ErrnoToStatus(errno,
                         absl::StrCat("pidfd_send_signal(", pid, ", SIGKILL)"));
  }
  return absl::OkStatus();
}

}  // namespace hugepool::sys
