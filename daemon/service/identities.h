// Who is at the other end of each gRPC connection.
#ifndef HUGEPOOL_DAEMON_SERVICE_IDENTITIES_H_
#define HUGEPOOL_DAEMON_SERVICE_IDENTITIES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/base/read_guard.h"
#include "daemon/lease/types.h"

namespace hugepool::service {

// The other end of a connection. Where `denied` is not ok, every call of the
// connection fails with it.
struct Caller {
  Identity who;
  absl::Status denied;
};

// From a connection's descriptor to its caller. Thread-safe.
//
// gRPC calls a connection that was handed to it as a descriptor "fd:N". An
// entry is never removed, only replaced when the number is accepted again. That
// cannot happen under a call that still asks: gRPC keeps a connection's
// descriptor open for as long as one of its calls lives.
//
// Looking takes no lock: every call begins with it, and releases of ranges are to
// meet no other lock than that of their queue.
class Identities {
 public:
  Identities() = default;
  ~Identities();
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  // To be called before gRPC gets the descriptor. False: no number that a
  // descriptor can have here.
  bool Set(int fd, Caller caller) HP_EXCLUDES(mu_);

  // The caller of a connection by ServerContext::peer(); nullopt where it is
  // none of ours, which must be refused.
  std::optional<Caller> Find(std::string_view peer) const;

 private:
  // The most descriptors that a process can be allowed is fs.nr_open, a million by
  // default.
  static constexpr size_t kPerChunk = 1024;
  static constexpr size_t kChunks = 1024;
  using Chunk = std::array<GuardedPtr<const Caller>, kPerChunk>;

  Mutex mu_;  // of those who set
  mutable ReadGuard guard_;
  // By descriptor; made when the first one is needed, and never freed before us.
  std::array<std::atomic<Chunk*>, kChunks> chunks_ = {};
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_IDENTITIES_H_
