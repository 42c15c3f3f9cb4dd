// A daemon for tests of clients: both sockets, ordinary memfds, no huge pages.
#ifndef HUGEPOOL_CLIENT_TESTING_FAKE_DAEMON_H_
#define HUGEPOOL_CLIENT_TESTING_FAKE_DAEMON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/testing/fake_fd_server.h"
#include "client/testing/fake_ranges.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"
#include "grpcpp/server.h"
#include "hugepool/v1/admin.grpc.pb.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::testing {

struct FakeDaemonOptions {
  std::string dir;
  // What an extent's page is said to be; the memory is made of small pages.
  PageSize page_size = k2M;
  // Pages per extent, unless the request wants fewer descriptors.
  uint64_t pages_per_extent = 1;
  Bytes capacity = MiB(256);
  bool admin = false;  // serve admin.sock too
  bool calls = true;   // over the fd channel too
};

// How the daemon should misbehave. All off by default.
struct Faults {
  // The next so many grants are answered, but their frames never sent.
  int drop_frames = 0;
  // Sessions are not recognised in calls (NO_FD_CHANNEL), so many times.
  int unknown_session = 0;
  // Calls fail as if the connection had broken, after the work was done: those
  // of Acquire, and those that release parts.
  int lose_reply = 0;
  int lose_parts_reply = 0;
  // The connection is ended instead of answering, after the work was done.
  bool goodbye_to_parts = false;
  // Releases of parts are refused with this, if it is not OK.
  absl::StatusCode deny_parts = absl::StatusCode::kOk;
  // Every Acquire is refused with this, if it is not OK.
  absl::StatusCode deny_code = absl::StatusCode::kOk;
  std::string deny_text;
  v1::ErrorDetail deny_detail;
  // Calls over the fd channel are not answered.
  bool silent = false;
  // The inode in the replies is wrong.
  bool wrong_inode = false;
};

// Thread-safe.
class FakeDaemon final : public v1::HugePool::Service {
 public:
  explicit FakeDaemon(FakeDaemonOptions options);
  ~FakeDaemon() override;

  void Start();
  void Stop();
  // Stops and starts. `remember`: sessions and leases survive, as with a vault.
  void Restart(bool remember);
  void SetFaults(Faults faults);

  // What was seen.
  std::vector<std::string> acked() const { return fds_->acked(); }
  std::vector<v1::GrantNack> nacked() const { return fds_->nacked(); }
  size_t presented() const { return fds_->presented(); }
  const FakeFdServer& fds() const { return *fds_; }
  // Until `n` acknowledgements or refusals came in all.
  void WaitForAnswers(size_t n) { fds_->WaitForAnswers(n); }
  void WaitForResumed(size_t n) { fds_->WaitForResumed(n); }
  // Makes the memfds of the next `n` extents now, so that granting them needs
  // no descriptor more.
  void Stock(int n);
  void set_adopt(bool adopt) { fds_->set_adopt(adopt); }
  size_t lease_count() const;
  Bytes leased() const;
  // Whether the page at `offset` was released as a part.
  bool IsReleased(const std::string& lease_id, uint32_t segment,
                  Bytes offset) const;
  v1::AcquireRequest last_request() const;
  // Leases that exist only in lists.
  void AddListedLeases(int n);
  void SendRevokeNotice(const std::string& lease_id);
  void SetStatus(v1::GetStatusResponse status);

  // v1::HugePool::Service
  grpc::Status Acquire(grpc::ServerContext* context,
                       const v1::AcquireRequest* request,
                       v1::AcquireResponse* response) override;
  grpc::Status Attach(grpc::ServerContext* context,
                      const v1::AttachRequest* request,
                      v1::AttachResponse* response) override;
  grpc::Status Release(grpc::ServerContext* context,
                       const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override;
  grpc::Status GetLease(grpc::ServerContext* context,
                        const v1::GetLeaseRequest* request,
                        v1::GetLeaseResponse* response) override;
  grpc::Status ListLeases(grpc::ServerContext* context,
                          const v1::ListLeasesRequest* request,
                          v1::ListLeasesResponse* response) override;
  grpc::Status GetStatus(grpc::ServerContext* context,
                         const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context,
                     const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Event>* writer) override;

 private:
  struct FakeLease {
    v1::Lease lease;
    std::vector<UniqueFd> fds;
    std::string request_id;
    FakeRanges released;
  };

  // The session of a call, or an error.
  grpc::Status FindSession(grpc::ServerContext* context, std::string* secret);
  grpc::Status CheckSession(const std::string& secret);
  // The calls, whatever brought them.
  grpc::Status DoAcquire(const std::string& secret,
                         const v1::AcquireRequest& request,
                         v1::AcquireResponse* response);
  grpc::Status DoAttach(const std::string& secret,
                        const v1::AttachRequest& request,
                        v1::AttachResponse* response);
  grpc::Status DoRelease(const v1::ReleaseRequest& request,
                         v1::ReleaseResponse* response);
  grpc::Status DoReleaseParts(FakeLease* lease,
                              const v1::ReleaseRequest& request,
                              v1::ReleaseResponse* response) HP_REQUIRES(mu_);
  std::optional<v1::Answer> OnCall(const std::string& secret,
                                   const v1::Call& call);
  // Whether the faults say so; then it is said.
  bool SaysGoodbye();
  // A new lease for `request`, not yet sent.
  grpc::Status Make(const v1::AcquireRequest& request, std::string* id)
      HP_REQUIRES(mu_);
  void AddSegment(Bytes size, uint32_t max_extents, uint32_t index,
                  FakeLease* lease) HP_REQUIRES(mu_);
  // By id or name; leases_.end() where there is none.
  std::map<std::string, FakeLease>::iterator Find(const std::string& id,
                                                  const std::string& name)
      HP_REQUIRES(mu_);
  UniqueFd MakeExtent(Bytes size) HP_REQUIRES(mu_);
  // Sends the lease's descriptors; its description goes to `out`.
  grpc::Status Send(const std::string& secret, const std::string& request_id,
                    const std::string& lease_id, v1::Lease* out,
                    uint32_t* frames);
  void OnNack(const std::string& lease_id);

  const FakeDaemonOptions options_;
  std::unique_ptr<FakeFdServer> fds_;
  std::unique_ptr<v1::HugePoolAdmin::Service> admin_;
  std::unique_ptr<grpc::Server> server_;

  mutable Mutex mu_;
  Faults faults_ HP_GUARDED_BY(mu_);
  std::map<std::string, FakeLease> leases_ HP_GUARDED_BY(mu_);
  std::vector<UniqueFd> stock_ HP_GUARDED_BY(mu_);
  std::vector<v1::Lease> listed_ HP_GUARDED_BY(mu_);
  Bytes leased_ HP_GUARDED_BY(mu_);
  uint64_t next_id_ HP_GUARDED_BY(mu_) = 1;
  v1::AcquireRequest last_request_ HP_GUARDED_BY(mu_);
  v1::GetStatusResponse status_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_FAKE_DAEMON_H_
