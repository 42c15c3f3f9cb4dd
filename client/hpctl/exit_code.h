// From a status to what the shell sees.
#ifndef HUGEPOOL_CLIENT_HPCTL_EXIT_CODE_H_
#define HUGEPOOL_CLIENT_HPCTL_EXIT_CODE_H_

#include <ostream>

#include "absl/status/status.h"
#include "client/hpctl/globals.h"

namespace hugepool::hpctl {

// Scripts rely on these numbers.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,  // anything that has no number of its own
  kExitUsage = 2,
  kExitNoDaemon = 3,
  kExitShort = 4,  // too little memory, a limit reached, or draining
  kExitDenied = 5,
  kExitWaitExpired = 6,
  kExitNotFound = 7,
  // `run` only, as env(1) and timeout(1) have them.
  kExitRunFailed = 125,
  kExitCannotExecute = 126,
  kExitNoSuchCommand = 127,
};

int ExitCodeOf(const absl::Status& status);

// Tells `status` on globals.err, with the hint, or as a JSON object with
// -o json; returns its exit code. Nothing to tell for OK.
int Report(const Globals& globals, const absl::Status& status);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_EXIT_CODE_H_
