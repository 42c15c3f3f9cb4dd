#include "daemon/service/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/mutex.h"
#include "daemon/base/refusal.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"

namespace hugepool::service {
namespace {

// Reflection is the only synchronous service: these threads are its alone.
constexpr int kSyncThreads = 2;
// Threads of gRPC that a resource quota allows; the callback API's own are
// bounded by the number of CPUs, whatever clients do.
constexpr int kMaxThreads = 16;
constexpr int kMaxStreamsPerConnection = 4096;
constexpr absl::Duration kHealthEvery = absl::Seconds(1);
constexpr absl::Duration kAnswerPoll = absl::Milliseconds(5);

void Configure(grpc::ServerBuilder* builder) {
  grpc::ResourceQuota quota("hugepoold");
  quota.SetMaxThreads(kMaxThreads);
  builder->SetResourceQuota(quota);
  // By default one queue and up to two threads for each CPU.
  builder->SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, kSyncThreads);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                              kMaxStreamsPerConnection);
  // A holder that pings while it is idle is welcome to (N51).
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

// gRPC's last user waits in grpc_shutdown() for its threads, of which one can
// sleep in epoll_wait for ten seconds (its backup poller). So that Stop() is
// never the last one, the process stays a user until its end.
void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  (void)kept;
}

FdChannel::Options WithUid(FdChannel::Options options, uid_t uid) {
  options.daemon_uid = uid;
  return options;
}

}  // namespace

// Guards the server for the closures of the executor.
struct Service::Watched {
  Mutex mu;
  CondVar idle;
  grpc::Server* server HP_GUARDED_BY(mu) = nullptr;  // null: stopped
  bool busy HP_GUARDED_BY(mu) = false;  // a closure uses the server
  bool serving = false;                 // of the closure
};

Service::Service(Options options, const Deps& deps)
    : options_(std::move(options)),
      deps_(deps),
      hub_(deps.domains, deps.executor, deps.clock),
      fd_channel_(WithUid(options_.fd, options_.daemon_uid), deps.domains),
      acceptor_(&identities_, deps.domains, options_.daemon_uid) {}

Service::~Service() { Stop(absl::ZeroDuration()); }

absl::Status Service::MakeSockets() {
  // All locks before any socket: a second daemon leaves without a trace.
  for (const ListenerSpec& spec : options_.listeners) {
    if (dirs_.contains(spec.dir)) continue;
    HP_ASSIGN_OR_RETURN(dirs_[spec.dir], SocketDir::Claim(spec.dir));
  }
  for (const ListenerSpec& spec : options_.listeners) {
    SocketDir& dir = *dirs_[spec.dir];
    HP_ASSIGN_OR_RETURN(auto grpc_socket,
                        dir.Listen(spec.admin ? kAdminSocket : kGrpcSocket,
                                   SOCK_STREAM, spec.access));
    acceptor_.Add(grpc_socket->fd(), spec);
    sockets_.push_back(std::move(grpc_socket));
    if (spec.admin) continue;
    HP_ASSIGN_OR_RETURN(
        auto fd_socket, dir.Listen(kFdSocket, SOCK_SEQPACKET, spec.access));
    fd_channel_.Add(fd_socket->fd(), spec);
    sockets_.push_back(std::move(fd_socket));
  }
  for (const auto& [path, dir] : dirs_) HP_RETURN_IF_ERROR(dir->Open());
  return absl::OkStatus();
}

absl::Status Service::StartServer() {
  KeepGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  hugepool_service_ = std::make_unique<HugePoolService>(
      HugePoolService::Deps{manager_, host_, deps_.domains, &identities_, &hub_,
                            client_calls_.get(), &pending_},
      options_.facts);
  admin_service_ = std::make_unique<AdminService>(host_, &identities_,
                                                  options_.admin);
  grpc::ServerBuilder builder;
  Configure(&builder);
  builder.RegisterService(hugepool_service_.get());
  builder.RegisterService(admin_service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::InternalError("the gRPC server could not be started");
  }
  server_->GetHealthCheckService()->SetServingStatus(false);
  health_ = std::make_shared<Watched>();
  {
    MutexLock lock(&health_->mu);
    health_->server = server_.get();
  }
  UpdateHealth();
  return absl::OkStatus();
}

absl::Status Service::Start(LeaseManager* manager, Host* host) {
  manager_ = manager;
  host_ = host;
  client_calls_ =
      std::make_unique<ClientCalls>(manager_, *host_, deps_.domains);
  absl::Status status = MakeSockets();
  if (status.ok()) status = StartServer();
  if (status.ok()) status = fd_channel_.Start(manager_, client_calls_.get());
  if (status.ok()) status = acceptor_.Start(server_.get());
  if (!status.ok()) Stop(absl::ZeroDuration());
  return status;
}

// Says what is the case, and looks again after a while.
void Service::UpdateHealth() {
  // The closure must not touch this service once it is stopped.
  const auto look = [shared = health_, ready = options_.facts.ready] {
    const bool serving = ready ? ready() : true;
    grpc::Server* server = nullptr;
    {
      MutexLock lock(&shared->mu);
      server = shared->server;
      if (server == nullptr) return false;
      shared->busy = true;
    }
    if (std::exchange(shared->serving, serving) != serving) {
      server->GetHealthCheckService()->SetServingStatus(serving);
    }
    MutexLock lock(&shared->mu);
    shared->busy = false;
    shared->idle.Signal();
    return true;
  };
  struct Again {
    static void Run(Executor* executor, const Clock* clock,
                    std::function<bool()> look) {
      if (!look()) return;
      executor->PostAt(clock->Now() + kHealthEvery,
                       [executor, clock, look = std::move(look)] {
                         Run(executor, clock, look);
                       });
    }
  };
  Again::Run(deps_.executor, deps_.clock, look);
}

// Until no Acquire or Attach is under way; what is left then is answered here.
void Service::EndCalls(absl::Time until) {
  do {
    // One that came in before the draining can begin to wait after this.
    manager_->CancelAllWaits();
    if (pending_.size() == 0) return;
    absl::SleepFor(kAnswerPoll);
  } while (absl::Now() < until);
  pending_.AnswerAll(Refuse(RefusalReason::kDraining, "the daemon is stopping",
                            "try again when it has been restarted"));
}

void Service::Stop(absl::Duration grace) {
  const absl::Time until = absl::Now() + grace;
  acceptor_.Stop();
  if (server_ != nullptr) {
    {
      MutexLock lock(&health_->mu);
      health_->server = nullptr;
      while (health_->busy) health_->idle.Wait(&health_->mu);
    }
    server_->GetHealthCheckService()->Shutdown();
    host_->SetDraining(true);
    hub_.Close();
    EndCalls(until);
    server_->Shutdown(absl::ToChronoTime(until));
    server_->Wait();
  }
  fd_channel_.Stop();
  server_.reset();
  sockets_.clear();
  dirs_.clear();
}

}  // namespace hugepool::service
