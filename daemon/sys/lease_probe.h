// fcntl(F_SETLEASE) as a witness: does anybody but us hold this file?
//
// A write lease is granted only while ours is the file's only open description
// (with all its dups, mappings and forked mappings). That holds for a
// description that was opened by path; the one that memfd_create() returns is
// not counted and answers the opposite (K6), which is why every file here is
// re-opened through /proc/self/fd at its birth.
#ifndef HUGEPOOL_DAEMON_SYS_LEASE_PROBE_H_
#define HUGEPOOL_DAEMON_SYS_LEASE_PROBE_H_

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool::sys {

// Ignores SIGIO in the whole process. An open of a file with a lease sends it,
// and its default action ends the process (K8). To be called before any thread
// starts and before any probe.
void IgnoreLeaseSignals();

// Opens the file behind `fd` again, read-write (or with `flags`): another,
// counted description. O_CLOEXEC and O_NONBLOCK are added: a lease that
// somebody left behind must not make us wait (45 s).
absl::StatusOr<UniqueFd> OpenAgain(int fd, int flags);

// Sets the lease and leaves it set where the answer is kFree. About 2 us.
HolderAnswer SetWriteLease(int fd);
// Whether the lease is set and no open has come to break it since.
bool WriteLeaseIntact(int fd);
void UnsetLease(int fd);

// What the self-test saw. All but readonly_busy must be true for kLease.
struct LeaseReport {
  bool alone_free = false;
  bool readwrite_busy = false;
  bool readonly_busy = false;  // where false: invisible, known to be so
  bool mapping_busy = false;   // descriptor closed, mapping alive
  bool child_busy = false;     // only a forked child's mapping alive
  bool gone_free = false;
  bool open_breaks = false;  // an open is seen in a lease that was left set
  bool usable() const {
    return alone_free && readwrite_busy && mapping_busy && child_busy &&
           gone_free && open_breaks;
  }
};

// Tries all of it on `fd`, a file of at least one page that nobody else has,
// by a counted description. `page_bytes` is what is mapped of it; nothing is
// allocated. Makes one child process that only waits and ends; to be called
// before threads start. Calls IgnoreLeaseSignals().
LeaseReport TestLeases(int fd, Bytes page_bytes);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_LEASE_PROBE_H_
