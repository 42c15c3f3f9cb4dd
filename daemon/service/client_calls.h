// What Acquire, Attach and Release do, whatever brings them: gRPC or the fd
// channel.
#ifndef HUGEPOOL_DAEMON_SERVICE_CLIENT_CALLS_H_
#define HUGEPOOL_DAEMON_SERVICE_CLIENT_CALLS_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/pool/host.h"
#include "hugepool/v1/hugepool.pb.h"

namespace hugepool::service {

// From the messages of the wire to the LeaseManager and back. Thread-safe;
// nothing blocks.
class ClientCalls {
 public:
  using AcquireDone =
      std::function<void(absl::StatusOr<v1::AcquireResponse> reply)>;
  using AttachDone =
      std::function<void(absl::StatusOr<v1::AttachResponse> reply)>;

  // All must outlive this.
  ClientCalls(LeaseManager* manager, const Host& host, const Domains* domains);

  // `done` is called exactly once: on the caller's thread where nothing has to
  // be waited for, on the manager's executor otherwise. The descriptors were
  // sent before.
  void Acquire(SessionId session, const v1::AcquireRequest& request,
               AcquireDone done);
  void Attach(SessionId session, const v1::AttachRequest& request,
              AttachDone done);
  absl::StatusOr<v1::ReleaseResponse> Release(
      const Identity& who, const v1::ReleaseRequest& request);
  // The caller of an Acquire went away. No effect on one that does not wait.
  void Cancel(SessionId session, const std::string& request_id) {
    manager_->CancelAcquire(session, request_id);
  }

 private:
  LeaseManager* const manager_;
  const Domains* const domains_;
  const std::vector<PageSize> page_sizes_;  // that have a pool, largest first
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_CLIENT_CALLS_H_
