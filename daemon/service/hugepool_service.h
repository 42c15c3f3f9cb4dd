// The client service of hugepool.proto.
#ifndef HUGEPOOL_DAEMON_SERVICE_HUGEPOOL_SERVICE_H_
#define HUGEPOOL_DAEMON_SERVICE_HUGEPOOL_SERVICE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/pool/host.h"
#include "daemon/reclaim/deferred_queue.h"
#include "daemon/service/client_calls.h"
#include "daemon/service/event_hub.h"
#include "daemon/service/identities.h"
#include "daemon/service/pending_calls.h"
#include "grpcpp/server_context.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::service {

// How a node's memory is zeroed; rates in bytes per second, 0 where not known.
struct ZeroingFacts {
  NodeId node;
  std::string stores;
  double stores_rate = 0;
  int zero_threads = 0;
  double zero_rate = 0;
  int populate_threads = 0;
  double populate_rate = 0;
  // Of background work: its cap, what it keeps of its speed while others wait, and
  // in what percentage of the time they do.
  std::optional<Bytes> background_cap;
  double background_share = 1;
  std::optional<double> pressure;
};

// What GetStatus tells beside the books.
struct Facts {
  std::string version;
  std::string backend;  // hugetlb or shmem
  std::string probe;    // lease, exec or none
  absl::Time started;
  // How many leases the descriptor limit still allows for; 0: not known.
  std::function<uint64_t()> descriptor_limit;
  std::function<bool()> ready;
  std::function<std::vector<std::string>()> warnings;
  std::function<std::vector<ZeroingFacts>()> zeroing;
  std::function<std::vector<std::pair<NodeId, DeferredQueue::Stats>>()>
      deferred;
};

// Ends a call that needs no wait; returns the reactor that a handler returns.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const absl::Status& status);

// The caller of a call; PERMISSION_DENIED for one that may not connect.
absl::StatusOr<Identity> IdentityOf(const Identities& identities,
                                    const grpc::CallbackServerContext& context);

// Thread-safe. No handler blocks: an Acquire that waits holds no thread.
//
// On the admin socket Acquire and Attach are refused (it has no fd channel);
// the others see all domains there.
class HugePoolService : public v1::HugePool::CallbackService {
 public:
  struct Deps {
    LeaseManager* manager;
    Host* host;
    Domains* domains;
    const Identities* identities;
    EventHub* hub;
    ClientCalls* calls;
    PendingCalls* pending;
  };
  HugePoolService(const Deps& deps, Facts facts);

  grpc::ServerUnaryReactor* Acquire(grpc::CallbackServerContext* context,
                                    const v1::AcquireRequest* request,
                                    v1::AcquireResponse* reply) override;
  grpc::ServerUnaryReactor* Attach(grpc::CallbackServerContext* context,
                                   const v1::AttachRequest* request,
                                   v1::AttachResponse* reply) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* reply) override;
  grpc::ServerUnaryReactor* GetLease(grpc::CallbackServerContext* context,
                                     const v1::GetLeaseRequest* request,
                                     v1::GetLeaseResponse* reply) override;
  grpc::ServerUnaryReactor* ListLeases(grpc::CallbackServerContext* context,
                                       const v1::ListLeasesRequest* request,
                                       v1::ListLeasesResponse* reply) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* reply) override;
  grpc::ServerWriteReactor<v1::Event>* Watch(
      grpc::CallbackServerContext* context,
      const v1::WatchRequest* request) override;

 private:
  absl::StatusOr<SessionId> SessionOf(
      const grpc::CallbackServerContext& context) const;
  absl::Status DoRelease(const grpc::CallbackServerContext& context,
                         const v1::ReleaseRequest& request,
                         v1::ReleaseResponse* reply);
  absl::Status DoGetLease(const grpc::CallbackServerContext& context,
                          const v1::GetLeaseRequest& request,
                          v1::GetLeaseResponse* reply);
  absl::Status DoList(const grpc::CallbackServerContext& context,
                      const v1::ListLeasesRequest& request,
                      v1::ListLeasesResponse* reply);
  absl::Status DoStatus(const grpc::CallbackServerContext& context,
                        v1::GetStatusResponse* reply);

  const Deps deps_;
  const Facts facts_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_HUGEPOOL_SERVICE_H_
