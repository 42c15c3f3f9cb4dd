// Which processes have memory of ours, as /proc tells. For people, and for ending
// them by order: never for deciding whether memory is free, since a descriptor on
// its way through a socket or a pin is nobody's in /proc.
#ifndef HUGEPOOL_DAEMON_SYS_HOLDERS_H_
#define HUGEPOOL_DAEMON_SYS_HOLDERS_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool::sys {

// A process that has some of the files that were asked about.
struct HolderProcess {
  pid_t pid = 0;
  uid_t uid = 0;
  std::string command;  // /proc/PID/comm
  std::set<InodeId> open;
  std::set<InodeId> mapped;
};

class Holders {
 public:
  struct Found {
    std::vector<HolderProcess> processes;  // by pid; never this one
    // Processes of which not all could be seen: another user's, without
    // CAP_SYS_PTRACE (mappings) and CAP_DAC_READ_SEARCH (descriptors) beside it.
    uint32_t hidden = 0;
  };

  virtual ~Holders() = default;
  // Walks all of /proc: milliseconds on a busy machine, to be called where that
  // holds nobody up. Thread-safe.
  virtual Found Find(const std::set<InodeId>& inodes) const = 0;
  // SIGKILL for a process that has one of the files, and for that process only:
  // it is looked at again once its pidfd pins its number. OK where it has ended
  // or let go meanwhile. PERMISSION_DENIED; FAILED_PRECONDITION for process 1
  // and for this one.
  virtual absl::Status Kill(pid_t pid, const std::set<InodeId>& inodes) = 0;
};

class ProcHolders : public Holders {
 public:
  Found Find(const std::set<InodeId>& inodes) const override;
  absl::Status Kill(pid_t pid, const std::set<InodeId>& inodes) override;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_HOLDERS_H_
