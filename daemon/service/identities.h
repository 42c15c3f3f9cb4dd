// Who is at the other end of each gRPC connection.
#ifndef HUGEPOOL_DAEMON_SERVICE_IDENTITIES_H_
#define HUGEPOOL_DAEMON_SERVICE_IDENTITIES_H_

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
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
class Identities {
 public:
  // To be called before gRPC gets the descriptor.
  void Set(int fd, Caller caller) HP_EXCLUDES(mu_);

  // The caller of a connection by ServerContext::peer(); nullopt where it is
  // none of ours, which must be refused.
  std::optional<Caller> Find(std::string_view peer) const HP_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  // Index: the descriptor. Small: the kernel gives the lowest free number.
  std::vector<std::optional<Caller>> callers_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_IDENTITIES_H_
