#include "client/hpctl/rpc.h"

#include <unistd.h>

#include <iterator>
#include <utility>

#include "client/internal/unix_socket.h"
#include "daemon/base/errno_status.h"

namespace hugepool::hpctl {

absl::StatusOr<Daemon> Daemon::At(const Globals& globals) {
  HP_ASSIGN_OR_RETURN(const std::string dir,
                      client::SocketDirectory(globals.socket_dir));
  Daemon daemon;
  daemon.admin_path_ = dir + "/admin.sock";
  daemon.client_path_ = access(daemon.admin_path_.c_str(), W_OK) == 0
                            ? daemon.admin_path_
                            : dir + "/grpc.sock";
  daemon.client_ =
      v1::HugePool::NewStub(client::OpenChannel(daemon.client_path_));
  daemon.admin_ =
      v1::HugePoolAdmin::NewStub(client::OpenChannel(daemon.admin_path_));
  return daemon;
}

absl::StatusOr<std::vector<v1::Lease>> Daemon::AllLeases(v1::LeaseState state) {
  std::vector<v1::Lease> all;
  v1::ListLeasesRequest request;
  request.set_state(state);
  for (;;) {
    v1::ListLeasesResponse page;
    HP_RETURN_IF_ERROR(Call(&v1::HugePool::Stub::ListLeases, request, &page));
    all.insert(all.end(),
               std::make_move_iterator(page.mutable_leases()->begin()),
               std::make_move_iterator(page.mutable_leases()->end()));
    if (page.next_page_token().empty()) return all;
    if (page.next_page_token() == request.page_token()) {
      return absl::InternalError("the daemon's list of leases does not end");
    }
    request.set_page_token(page.next_page_token());
  }
}

absl::StatusOr<std::shared_ptr<client::Connection>> ConnectSession(
    const Globals& globals) {
  return client::Connection::Connect(
      {.dir = globals.socket_dir, .client_name = "hpctl"});
}

}  // namespace hugepool::hpctl
