#include "daemon/sys/lease_probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool::sys {
namespace {

// One question: the lease does not stay set.
HolderAnswer AskOnce(int fd) {
  const HolderAnswer answer = SetWriteLease(fd);
  if (answer == HolderAnswer::kFree) UnsetLease(fd);
  return answer;
}

bool Busy(int fd) { return AskOnce(fd) == HolderAnswer::kBusy; }
bool Free(int fd) { return AskOnce(fd) == HolderAnswer::kFree; }

// Whether a description counts that only a mapping keeps, first our own, then
// a forked child's.
void TestMappings(int fd, Bytes page_bytes, LeaseReport* report) {
  auto other = OpenAgain(fd, O_RDWR);
  if (!other.ok()) return;
  // NORESERVE: there may be no huge page at all.
  void* const map = mmap(nullptr, page_bytes.value(), PROT_READ,
                         MAP_SHARED | MAP_NORESERVE, other->get(), 0);
  other->reset();
  if (map == MAP_FAILED) return;
  report->mapping_busy = Busy(fd);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    munmap(map, page_bytes.value());
    return;
  }
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  // Without fork handlers: the child calls read and _exit, nothing else.
  const pid_t child = _Fork();
  if (child == 0) {
    close(writer.get());
    char byte;
    while (read(reader.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }
  munmap(map, page_bytes.value());
  if (child < 0) return;
  report->child_busy = Busy(fd);
  writer.reset();
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

void IgnoreLeaseSignals() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGIO, &ignore, nullptr);
}

absl::StatusOr<UniqueFd> OpenAgain(int fd, int flags) {
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  UniqueFd again(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
  if (!again.valid()) return ErrnoToStatus(errno, "open(" + path + ")");
  return again;
}

HolderAnswer SetWriteLease(int fd) {
  if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0) return HolderAnswer::kFree;
  return errno == EAGAIN ? HolderAnswer::kBusy : HolderAnswer::kUnknown;
}

bool WriteLeaseIntact(int fd) { return fcntl(fd, F_GETLEASE) == F_WRLCK; }

void UnsetLease(int fd) { fcntl(fd, F_SETLEASE, F_UNLCK); }

LeaseReport TestLeases(int fd, Bytes page_bytes) {
  LeaseReport report;
  IgnoreLeaseSignals();
  report.alone_free = Free(fd);
  if (!report.alone_free) return report;
  if (auto other = OpenAgain(fd, O_RDWR); other.ok()) {
    report.readwrite_busy = Busy(fd);
  }
  if (auto other = OpenAgain(fd, O_RDONLY); other.ok()) {
    report.readonly_busy = Busy(fd);
  }
  TestMappings(fd, page_bytes, &report);
  report.gone_free = Free(fd);
  if (SetWriteLease(fd) == HolderAnswer::kFree) {
    const bool set = WriteLeaseIntact(fd);
    // Does not wait: EWOULDBLOCK, and the lease knows.
    (void)OpenAgain(fd, O_RDWR);
    report.open_breaks = set && !WriteLeaseIntact(fd);
    UnsetLease(fd);
  }
  return report;
}

}  // namespace hugepool::sys
