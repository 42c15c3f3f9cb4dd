// Where descriptors survive the daemon: the seam for recovery after a restart.
#ifndef HUGEPOOL_DAEMON_SYS_FD_VAULT_H_
#define HUGEPOOL_DAEMON_SYS_FD_VAULT_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
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

// Backing "none": nothing survives the daemon.
class NoVault : public FdVault {
 public:
  absl::Status Store(std::string_view, int) override {
    return absl::OkStatus();
  }
  absl::Status Remove(std::string_view) override { return absl::OkStatus(); }
  std::vector<Stored> TakeStored() override { return {}; }
  std::string_view backing() const override { return "none"; }
};

// Remembers names only; a test asks which. Thread-safe.
class FakeVault : public FdVault {
 public:
  absl::Status Store(std::string_view name, int) override {
    MutexLock lock(&mu_);
    return names_.insert(std::string(name)).second
               ? absl::OkStatus()
               : absl::AlreadyExistsError("stored twice");
  }
  absl::Status Remove(std::string_view name) override {
    MutexLock lock(&mu_);
    return names_.erase(std::string(name)) == 1
               ? absl::OkStatus()
               : absl::NotFoundError("was not stored");
  }
  std::vector<Stored> TakeStored() override { return {}; }
  std::string_view backing() const override { return "fake"; }
  std::set<std::string> names() const {
    MutexLock lock(&mu_);
    return names_;
  }

 private:
  mutable Mutex mu_;
  std::set<std::string> names_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FD_VAULT_H_
