// Calls that need no session.
#ifndef HUGEPOOL_CLIENT_HPCTL_RPC_H_
#define HUGEPOOL_CLIENT_HPCTL_RPC_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/hpctl/globals.h"
#include "client/internal/connection.h"
#include "client/internal/transport.h"
#include "hugepool/v1/admin.grpc.pb.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::hpctl {

inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// The daemon whose sockets are in a directory. Whoever may use admin.sock sees
// and does through it what an admin may: all domains' leases, for one.
class Daemon {
 public:
  static absl::StatusOr<Daemon> At(const Globals& globals);

  v1::HugePool::Stub* client() { return client_.get(); }
  const std::string& client_path() const { return client_path_; }
  // The client service is reached over admin.sock.
  bool is_admin() const { return client_path_ == admin_path_; }

  // Calls `method` of the client service, e.g.
  //   daemon.Call(&v1::HugePool::Stub::GetStatus, request, &response)
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    client::SetDeadline(&context, absl::Now() + kCallTimeout);
    return client::CallStatus(
        (client_.get()->*method)(&context, request, response), client_path_);
  }
  // The same for the admin service, over admin.sock; what is done there can take
  // so much `more`.
  template <typename Method, typename Request, typename Response>
  absl::Status CallAdmin(Method method, const Request& request,
                         Response* response,
                         absl::Duration more = absl::ZeroDuration()) {
    grpc::ClientContext context;
    client::SetDeadline(&context, absl::Now() + kCallTimeout + more);
    return client::CallStatus(
        (admin_.get()->*method)(&context, request, response), admin_path_);
  }

  // All leases there are, page by page.
  absl::StatusOr<std::vector<v1::Lease>> AllLeases(v1::LeaseState state);

 private:
  std::string client_path_;
  std::string admin_path_;
  std::unique_ptr<v1::HugePool::Stub> client_;
  std::unique_ptr<v1::HugePoolAdmin::Stub> admin_;
};

// A connection with a session, for the calls that need one. Does not wait for a
// daemon that is not there.
absl::StatusOr<std::shared_ptr<client::Connection>> ConnectSession(
    const Globals& globals);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_RPC_H_
