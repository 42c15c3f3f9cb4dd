// A client's connection to the daemon, and the leases it brings.
#ifndef HUGEPOOL_CLIENT_INTERNAL_CONNECTION_H_
#define HUGEPOOL_CLIENT_INTERNAL_CONNECTION_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/internal/fd_channel.h"
#include "client/internal/lease_map.h"
#include "client/internal/mapping.h"
#include "client/internal/released_parts.h"
#include "client/internal/session_keeper.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::client {

struct ConnectOptions {
  // Directory of the daemon's sockets.
  std::string dir;
  // For the operator's lists; the program's name where empty.
  std::string client_name;
  // For how long a call looks for a daemon that went away.
  absl::Duration reconnect_budget = absl::Seconds(2);
  // How long a call may take, beside max_wait.
  absl::Duration call_timeout = absl::Seconds(10);
  // How long descriptors may take after the reply. They are sent before it, so
  // this only bounds a fault.
  absl::Duration frame_timeout = absl::Seconds(5);
  // Reconnect without being called, as long as there are leases (see
  // SessionKeeper).
  bool watch = true;
  // Make calls over gRPC even where the fd channel carries them, which is
  // faster.
  bool over_grpc = false;
};

// Descriptors and mappings of one lease. Unmaps and closes at the end of its
// life; does not release the lease. Move-only, not thread-safe.
struct HeldLease {
  v1::Lease lease;
  absl::Duration waited;
  // One for each of lease.extents. Shared with the connection, which presents
  // them to a daemon that lost its own.
  std::shared_ptr<const std::vector<UniqueFd>> fds;
  std::vector<MappedRange> segments;  // empty where not mapped
  ReleasedParts released;
};

// What the daemon thinks of a lease, as far as this process knows.
enum class LeaseStanding {
  kHeld,     // all is well
  kRevoked,  // the daemon wants it back
  kLost,     // a restarted daemon does not know it; the memory stays mapped
};

// Thread-safe. To be used by the process that made it only: in a forked child
// every call returns FAILED_PRECONDITION, since neither gRPC nor the session
// survives a fork.
class Connection {
 public:
  // Connects the fd channel; gRPC's comes with the first call that needs it.
  // Does not wait for a daemon that is not there.
  static absl::StatusOr<std::shared_ptr<Connection>> Connect(
      ConnectOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Leases memory, maps it and acknowledges. request_id is filled in here. A
  // connection that breaks is made anew and the call repeated, with the same
  // request_id, within the budget.
  absl::StatusOr<HeldLease> Acquire(v1::AcquireRequest request,
                                    const MapOptions& options);
  // The descriptors of a NAMED lease (again).
  absl::StatusOr<HeldLease> Attach(v1::AttachRequest request,
                                   const MapOptions& options);
  // Ends a lease for the daemon. Unmap and close first: what is still open is
  // charged on. Returns the bytes given up. NOT_FOUND: it had ended already.
  absl::StatusOr<Bytes> Release(const std::string& lease_id);
  // The same for a NAMED lease.
  absl::StatusOr<Bytes> ReleaseByName(const std::string& name);
  // How the tries of a call went that may be made more than once.
  struct Tries {
    // One got no answer: the daemon may have done what it asked.
    bool unsure = false;
    // After such a one, the daemon says that something was released before.
    bool done_before = false;
  };
  // Tells the daemon of parts that are given up; the lease lives on. `request`
  // has ranges. One that is answered after a try without an answer counts as
  // done where the daemon finds it done. `tries` begins as it is; an error with
  // `unsure` leaves open whether the daemon has them.
  absl::StatusOr<Bytes> ReleaseParts(v1::ReleaseRequest request, Tries* tries);
  // The lease is given up without telling the daemon.
  void Forget(const std::string& lease_id);

  LeaseStanding Standing(const std::string& lease_id);
  // The id of the session of now.
  std::string SessionId();
  const std::string& dir() const { return options_.dir; }

  // True in a forked child of the process that connected.
  bool InForkedChild() const;
  // FAILED_PRECONDITION there.
  absl::Status CheckProcess() const;

 private:
  struct Session {
    std::unique_ptr<FdChannel> fds;
    std::string secret;
    // Made with the first call that goes over gRPC: a program that makes none
    // has none of gRPC's threads, and saves a millisecond.
    std::once_flag grpc_made;
    std::unique_ptr<v1::HugePool::Stub> stub;
    // The daemon does not know the session any more. Relaxed: a hint that
    // leads to a reconnect, which mu_ orders.
    std::atomic<bool> stale{false};
  };
  // What must be known of a lease to take it up again after a reconnect.
  struct Known {
    uint64_t generation = 0;
    v1::Lifetime lifetime = v1::LIFETIME_UNSPECIFIED;
    std::shared_ptr<const std::vector<UniqueFd>> fds;
    // Presented once already. A daemon that cannot have it is not asked again.
    bool presented = false;
    bool lost = false;
  };
  explicit Connection(ConnectOptions options);
  std::string NextRequestId();
  absl::StatusOr<std::shared_ptr<Session>> OpenSession(
      const std::string& resume_secret);
  // The session, made anew if the last one broke, until `give_up`.
  absl::StatusOr<std::shared_ptr<Session>> GetSession(absl::Time give_up)
      HP_EXCLUDES(mu_);
  // Watches the session of now, where that is wanted.
  void WatchSession() HP_REQUIRES(mu_);
  // Called by the keeper's thread. True: there is nothing more to do.
  bool ReconnectForLeases() HP_EXCLUDES(mu_);
  // Finds out which leases a new session still has, and presents the others.
  void TakeUpLeases(FdChannel* fds) HP_REQUIRES(mu_);
  // One try of a call, over the fd channel or, where the daemon does not know
  // that or the request is too long for a frame, over gRPC.
  absl::StatusOr<v1::Answer> CallOnce(Session* session, absl::Time deadline,
                                      const v1::Call& call,
                                      FdChannel::Pending* pending);
  absl::StatusOr<v1::Answer> CallOverGrpc(Session* session, absl::Time deadline,
                                          const v1::Call& call);
  // Whether a try that failed may have been done all the same.
  static void NoteFailure(const absl::Status& status, Session* session,
                          Tries* tries);
  struct Result {
    std::shared_ptr<Session> session;  // that was used
    v1::Answer answer;
    ReceivedGrant grant;
  };
  // Makes the call, on a new session where the old one broke. `request_id`
  // empty: it brings no descriptors; else they are in the result's `grant`.
  absl::StatusOr<Result> CallWithRetry(const v1::Call& call,
                                       absl::Duration extra_wait,
                                       const std::string& request_id,
                                       Tries* tries);
  // Maps, acknowledges and books what was granted. Nacks where that fails.
  absl::StatusOr<HeldLease> TakeGrant(Session* session, ReceivedGrant grant,
                                      v1::Lease lease,
                                      const MapOptions& options);
  absl::StatusOr<Bytes> DoRelease(v1::ReleaseRequest request, Tries* tries);

  const ConnectOptions options_;
  const std::string fd_path_;
  const std::string grpc_path_;
  const pid_t pid_;
  const std::string request_prefix_;
  // Relaxed: only uniqueness counts.
  std::atomic<uint64_t> next_request_{1};

  Mutex mu_;
  std::shared_ptr<Session> session_ HP_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, Known> known_ HP_GUARDED_BY(mu_);
  // Made with the first lease. The last member: its thread uses the others.
  std::unique_ptr<SessionKeeper> keeper_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_CONNECTION_H_
