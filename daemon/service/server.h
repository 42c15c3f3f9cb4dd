// The service layer as one object: sockets, fd channel, gRPC server.
#ifndef HUGEPOOL_DAEMON_SERVICE_SERVER_H_
#define HUGEPOOL_DAEMON_SERVICE_SERVER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/events.h"
#include "daemon/lease/granter.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/pool/host.h"
#include "daemon/service/acceptor.h"
#include "daemon/service/admin_service.h"
#include "daemon/service/client_calls.h"
#include "daemon/service/event_hub.h"
#include "daemon/service/fd_channel.h"
#include "daemon/service/hugepool_service.h"
#include "daemon/service/identities.h"
#include "daemon/service/listener.h"
#include "daemon/service/pending_calls.h"
#include "grpcpp/server.h"

namespace hugepool::service {

// Used in this order, since the LeaseManager needs two of its parts:
//
//   Service service(options, {&domains, &executor, clock});
//   LeaseManager manager(..., {.sender = service.sender(),
//                              .news = service.news(), ...});
//   HP_RETURN_IF_ERROR(service.Start(&manager, &host));
//   ...
//   service.Stop(absl::Seconds(5));
//   executor.Stop();  // after Stop(), before the service dies
//
// Not thread-safe, except sender() and news(), which are once made.
class Service {
 public:
  struct Options {
    // Clients' listeners and the admin socket (`admin` set). Several may share a
    // directory.
    std::vector<ListenerSpec> listeners;
    Facts facts;
    AdminActs admin;
    uid_t daemon_uid = 0;
    FdChannel::Options fd;  // its daemon_uid is set from the above
  };
  struct Deps {
    Domains* domains;
    Executor* executor;
    const Clock* clock;
  };

  Service(Options options, const Deps& deps);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  GrantSender* sender() { return &fd_channel_; }
  NewsSink* news() { return &hub_; }

  // Claims the directories, then makes the sockets, then serves. ALREADY_EXISTS:
  // another daemon serves one of them; nothing was touched then. On any error
  // all that was made is taken down again. Not to be called twice.
  absl::Status Start(LeaseManager* manager, Host* host);

  // Refuses new leases (Host::SetDraining), ends waits and streams, lets calls
  // under way finish for up to `grace`, cancels the rest, says Goodbye on the fd
  // channel and removes the sockets. Takes hardly longer than `grace`, whatever
  // clients do. The executor must still run. Idempotent.
  void Stop(absl::Duration grace);

 private:
  absl::Status MakeSockets();
  absl::Status StartServer();
  void UpdateHealth();
  void EndCalls(absl::Time until);

  const Options options_;
  const Deps deps_;
  LeaseManager* manager_ = nullptr;
  Host* host_ = nullptr;

  std::map<std::string, std::unique_ptr<SocketDir>> dirs_;
  std::vector<std::unique_ptr<Listener>> sockets_;
  Identities identities_;
  PendingCalls pending_;
  std::unique_ptr<ClientCalls> client_calls_;  // made by Start()
  EventHub hub_;
  FdChannel fd_channel_;
  Acceptor acceptor_;
  std::unique_ptr<HugePoolService> hugepool_service_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<grpc::Server> server_;
  // Shared with the closure that looks after the health service.
  struct Watched;
  std::shared_ptr<Watched> health_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_SERVER_H_
