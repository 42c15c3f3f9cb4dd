// The client's end of the fd channel.
#ifndef HUGEPOOL_CLIENT_INTERNAL_FD_CHANNEL_H_
#define HUGEPOOL_CLIENT_INTERNAL_FD_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/internal/frame_socket.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "hugepool/v1/fdchannel.pb.h"

namespace hugepool::client {

// All descriptors of one lease, in the order of Lease.extents.
struct ReceivedGrant {
  std::string lease_id;
  uint64_t generation = 0;
  std::vector<UniqueFd> fds;
};

// A connected and welcomed SOCK_SEQPACKET channel. Thread-safe.
//
// There is no reader thread. The daemon sends a grant's frames before it
// answers the call, so they are there when a caller comes to Collect: the caller
// reads them itself, with no hop to another thread. Of several callers at a time
// one reads (the leader) and hands frames that belong to others to them; when it
// has its own it makes another one the leader.
//
// Frames nobody waits for are answered with GrantNack and their descriptors
// closed, so that an abandoned call leaks nothing on either side.
class FdChannel {
 public:
  // An entry for the frames of one request. Made before the call is sent, so
  // that another caller that reads them knows where they belong. Must not
  // outlive the channel. Not thread-safe itself.
  class Pending {
   public:
    // `request_id` is empty for a call that brings no descriptors.
    Pending(FdChannel* channel, std::string request_id);
    // What arrived and was not collected is closed and nacked.
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

   private:
    friend class FdChannel;
    FdChannel* const channel_;
    const std::string request_id_;
    // The rest is guarded by channel_->mu_, which cannot be named here.
    bool answered_ = false;  // the call, by all parts of its answer
    v1::Answer answer_;
    bool complete_ = false;  // all descriptors are there
    absl::Status status_;
    std::string lease_id_;
    uint64_t generation_ = 0;
    uint32_t parts_seen_ = 0;
    std::vector<std::vector<UniqueFd>> parts_;
    CondVar wake_;
  };

  // Connects to `path`, says Hello and waits up to `timeout` for the Welcome.
  // `resume_secret` is that of an earlier session, or empty.
  static absl::StatusOr<std::unique_ptr<FdChannel>> Connect(
      const std::string& path, const std::string& client_name,
      const std::string& resume_secret, absl::Duration timeout);
  FdChannel(const FdChannel&) = delete;
  FdChannel& operator=(const FdChannel&) = delete;

  // To be watched for the daemon's hanging up, not to be read.
  int fd() const { return socket_.fd(); }
  const v1::Welcome& welcome() const { return welcome_; }

  // Makes `call` over this channel and waits for its answer until `deadline`:
  // the answer, or the error in it. UNAVAILABLE without a detail: the channel
  // broke. DEADLINE_EXCEEDED without one: no answer came; the daemon is told to
  // forget the call. Needs welcome().calls().
  absl::StatusOr<v1::Answer> Ask(Pending* pending, const v1::Call& call,
                                 absl::Time deadline);

  // Waits up to `timeout` for all descriptors of the request. Whoever gets
  // them owes the daemon Ack or Nack. RESOURCE_EXHAUSTED: descriptors were
  // lost on the way (limit of open files); what came is closed and nacked.
  // UNAVAILABLE: the channel broke. DEADLINE_EXCEEDED: they did not come.
  absl::StatusOr<ReceivedGrant> Collect(Pending* pending,
                                        absl::Duration timeout);

  absl::Status Ack(const std::string& lease_id, uint64_t generation);
  // Best effort.
  void Nack(const std::string& lease_id, uint64_t generation,
            const std::string& reason);

  // Offers descriptors of a lease to a daemon that lost them, in the order of
  // Lease.extents, and waits up to `timeout` for its verdict. To be called
  // before the channel is used by others (it reads frames itself).
  absl::StatusOr<v1::PresentResult> Present(const std::string& lease_id,
                                            uint64_t generation,
                                            const std::vector<int>& fds,
                                            absl::Duration timeout);

  // The lease is held from an earlier session.
  void NoteHeld(const std::string& lease_id);
  // The lease is no longer of interest: late frames of it are nacked again.
  void ForgetLease(const std::string& lease_id);

  // Looks whether the daemon has hung up; one poll(2), does not wait.
  bool Broken();
  // Takes the daemon's notices in, without waiting; whether it wants this
  // lease back.
  bool Revoked(const std::string& lease_id);

 private:
  explicit FdChannel(FrameSocket socket);
  absl::Status Handshake(const std::string& client_name,
                         const std::string& resume_secret,
                         absl::Duration timeout);
  void SendNack(const std::string& lease_id, uint64_t generation,
                const std::string& reason);
  // Reads, or waits while somebody else reads, until `done`, the deadline, or
  // the end of the channel.
  void Lead(Pending* pending, absl::Time deadline,
            absl::FunctionRef<bool()> done) HP_REQUIRES(mu_);
  void Dispatch(ServerFrameAndFds frame) HP_REQUIRES(mu_);
  void DispatchAnswer(v1::Answer answer) HP_REQUIRES(mu_);
  void DispatchGrant(const v1::Grant& grant, ServerFrameAndFds frame)
      HP_REQUIRES(mu_);
  // Puts the frame's descriptors in their place in `pending`.
  void AddPart(Pending* pending, const v1::Grant& grant,
               ServerFrameAndFds frame) HP_REQUIRES(mu_);
  void FailPending(Pending* pending, absl::Status status) HP_REQUIRES(mu_);
  void Break(const absl::Status& why) HP_REQUIRES(mu_);
  // Reads what is there, unless somebody is reading already.
  void Drain() HP_REQUIRES(mu_);
  void PromoteAnother() HP_REQUIRES(mu_);

  FrameSocket socket_;  // read by the leader only
  v1::Welcome welcome_;

  Mutex mu_;
  bool leader_ HP_GUARDED_BY(mu_) = false;  // somebody is in socket_.Read
  absl::Status broken_ HP_GUARDED_BY(mu_);
  // By request_id: where grants belong; by call_id: where answers do.
  absl::flat_hash_map<std::string, Pending*> pending_ HP_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, Pending*> asked_ HP_GUARDED_BY(mu_);
  uint64_t next_call_ HP_GUARDED_BY(mu_) = 1;
  absl::flat_hash_set<Pending*> waiting_ HP_GUARDED_BY(mu_);  // in Lead()
  // Leases whose descriptors arrived. A retried Acquire can bring its frames
  // twice; the second ones must not be nacked.
  absl::flat_hash_set<std::string> held_ HP_GUARDED_BY(mu_);
  absl::flat_hash_set<std::string> revoked_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_FD_CHANNEL_H_
