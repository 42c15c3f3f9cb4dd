// Holders that a test makes up.
#ifndef HUGEPOOL_DAEMON_SYS_FAKE_HOLDERS_H_
#define HUGEPOOL_DAEMON_SYS_FAKE_HOLDERS_H_

#include <functional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "daemon/sys/holders.h"

namespace hugepool::sys {

class FakeHolders : public Holders {
 public:
  Found Find(const std::set<InodeId>& inodes) const override {
    Found all;
    all.hidden = hidden;
    for (const HolderProcess& p : processes) {
      for (const InodeId inode : inodes) {
        if (!p.open.contains(inode) && !p.mapped.contains(inode)) continue;
        all.processes.push_back(p);
        break;
      }
    }
    return all;
  }
  absl::Status Kill(pid_t pid, const std::set<InodeId>&) override {
    if (!refuse.ok()) return refuse;
    std::erase_if(processes,
                  [pid](const HolderProcess& p) { return p.pid == pid; });
    killed.push_back(pid);
    if (on_kill) on_kill(pid);
    return absl::OkStatus();
  }

  std::vector<HolderProcess> processes;
  uint32_t hidden = 0;
  absl::Status refuse;  // what Kill() answers, unless OK
  std::vector<pid_t> killed;
  std::function<void(pid_t)> on_kill;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FAKE_HOLDERS_H_
