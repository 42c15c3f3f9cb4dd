// Where the daemon's own threads run.
#ifndef HUGEPOOL_DAEMON_SYS_CPU_BINDING_H_
#define HUGEPOOL_DAEMON_SYS_CPU_BINDING_H_

#include <vector>

namespace hugepool::sys {

// From here on the calling thread runs on `cpus` only; an empty list changes
// nothing. Where a cpuset forbids it the thread runs where it may: a matter of
// speed, not an error.
void BindThisThread(const std::vector<int>& cpus);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_CPU_BINDING_H_
