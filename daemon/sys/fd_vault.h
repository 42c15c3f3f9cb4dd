// Where descriptors survive the daemon: the seam for recovery after a restart.
#ifndef HUGEPOOL_DAEMON_SYS_FD_VAULT_H_
#define HUGEPOOL_DAEMON_SYS_FD_VAULT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::sys {

// Keeps dups of descriptors by name across a death of the daemon. An extent is
// stored once, at its birth, before its first grant. Thread-safe.
class FdVault {
 public:
  struct Stored {
    std::string name;
    UniqueFd fd;
  };
  virtual ~FdVault() = default;
  // Stores a dup of `fd` and returns when it is known to have arrived.
  virtual absl::Status Store(std::string_view name, int fd) = 0;
  virtual absl::Status Remove(std::string_view name) = 0;
  // What an earlier daemon left; empties the list. Called once at start.
  virtual std::vector<Stored> TakeStored() = 0;
  virtual std::string_view backing() const = 0;  // "none", "fake", ...
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FD_VAULT_H_
