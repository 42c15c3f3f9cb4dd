// Surviving memory that answers with SIGBUS.
#ifndef HUGEPOOL_DAEMON_SYS_BUS_GUARD_H_
#define HUGEPOOL_DAEMON_SYS_BUS_GUARD_H_

#include <optional>

#include "absl/functional/function_ref.h"

namespace hugepool::sys {

// Where, and why, memory could not be touched.
struct BusFault {
  const void* address = nullptr;
  // The hardware lost what was there (BUS_MCEERR_*); else there is no page.
  bool poisoned = false;
};

// Runs `access`. nullopt: it ran to its end. Else it met SIGBUS, on this
// thread, and was left there and then: nothing of it may need a destructor,
// hold a lock or call what does (it loads and stores, that is all).
//
// A page can be poisoned at any time, and a file cut by somebody who was not
// supposed to be able to: neither may end a daemon that others trust with their
// memory (N32).
//
// The first call installs a handler for the process. A SIGBUS outside of a
// guard ends the process as before. Thread-safe; guards do not nest.
std::optional<BusFault> Guarded(absl::FunctionRef<void()> access);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_BUS_GUARD_H_
