// hpctl as a function, so that tests need no process for most of it.
#ifndef HUGEPOOL_CLIENT_HPCTL_HPCTL_H_
#define HUGEPOOL_CLIENT_HPCTL_HPCTL_H_

#include <ostream>
#include <string>
#include <vector>

namespace hugepool::hpctl {

// Runs hpctl with `args` (without the program's name) and returns its exit
// code. `run` may replace the process and not return.
int RunHpctl(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_HPCTL_H_
