#include "daemon/sys/cpu_binding.h"

#include <sched.h>

namespace hugepool::sys {

void BindThisThread(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  }
  (void)sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace hugepool::sys
