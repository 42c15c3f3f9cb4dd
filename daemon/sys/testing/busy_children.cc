#include "daemon/sys/testing/busy_children.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/sys/cpu_binding.h"

namespace hugepool::sys::testing {

BusyChildren::BusyChildren(int per_cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  (void)sched_getaffinity(0, sizeof(allowed), &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    for (int i = 0; CPU_ISSET(cpu, &allowed) && i < per_cpu; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        BindThisThread({cpu});
        // volatile: a loop without an effect may be taken for one that ends.
        volatile bool busy = true;
        while (busy) {
        }
      }
      if (child > 0) pids_.push_back(child);
    }
  }
}

BusyChildren::~BusyChildren() {
  for (const pid_t child : pids_) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

}  // namespace hugepool::sys::testing
