// The fd channel: the daemon's end of the SOCK_SEQPACKET sockets over which
// sessions are made and descriptors travel.
#ifndef HUGEPOOL_DAEMON_SERVICE_FD_CHANNEL_H_
#define HUGEPOOL_DAEMON_SERVICE_FD_CHANNEL_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/granter.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/service/accepting.h"
#include "daemon/service/acceptor.h"
#include "daemon/service/client_calls.h"
#include "daemon/service/fd_connection.h"
#include "daemon/service/frames.h"
#include "daemon/service/reaper.h"
#include "hugepool/v1/fdchannel.pb.h"

namespace hugepool::service {

// One epoll thread accepts, reads and ends connections; SendGrant() comes from
// any thread. Calls into the LeaseManager are made without a lock of the
// channel, from the epoll thread. So are the calls that come this way (Call): what
// one of them does at most is to open and send as many extents as a lease may
// have, some 10 us each; what has to wait is answered by the executor.
//
// The life of a connection: Greeting (waits for the Hello) -> Open (has a
// session) -> Leaving (was sent a Goodbye; what it still sends is thrown away)
// -> over. It can be over from any of them.
class FdChannel : public GrantSender {
 public:
  struct Options {
    absl::Duration hello_within = absl::Seconds(5);
    // How long a client may take to read its Goodbye.
    absl::Duration leave_within = absl::Seconds(1);
    // For how long after the end of a connection its process's death still
    // counts as the session's. Not less than the manager's resume_grace.
    absl::Duration watch_process_for = absl::Seconds(10);
    FdConnection::Limits queue;
    // Told to clients in the Welcome; enforced by the manager.
    uint32_t max_unacknowledged_fds = 512;
    absl::Duration acknowledge_within = absl::Seconds(5);
    uid_t daemon_uid = 0;
  };

  FdChannel(const Options& options, Domains* domains);
  ~FdChannel() override { Stop(); }
  FdChannel(const FdChannel&) = delete;
  FdChannel& operator=(const FdChannel&) = delete;

  // Before Start(). The socket stays the caller's and must outlive Stop().
  void Add(int socket, const ListenerSpec& spec) {
    listeners_.push_back({socket, spec});
  }
  // The manager is made after this, since it needs a GrantSender; both must
  // outlive Stop().
  absl::Status Start(LeaseManager* manager, ClientCalls* calls);
  // Says Goodbye (DRAINING) to all, leaves their sessions to be resumed, closes
  // and joins. Does not wait for clients. Idempotent.
  void Stop();

  // GrantSender. Before Start() and after Stop(): UNAVAILABLE.
  absl::Status SendGrant(SessionId session, GrantFrame frame) override;
  void SendRevokeNotice(SessionId session, LeaseId lease,
                        absl::Duration within) override;

 private:
  enum class Phase { kGreeting, kOpen, kLeaving };
  // Of the epoll thread.
  struct Peer {
    uint64_t number = 0;
    std::shared_ptr<FdConnection> connection;
    Caller caller;
    Phase phase = Phase::kGreeting;
    UniqueFd pidfd;
    SessionId session;   // while Open
    std::string secret;  // of the session
    uint64_t epoch = 0;
    absl::Time deadline = absl::InfiniteFuture();  // Greeting and Leaving
  };
  // A process whose connection is gone, and whose session may be resumed.
  struct Orphan {
    UniqueFd pidfd;
    SessionId session;
    uint64_t epoch = 0;
    absl::Time until;
  };
  struct ListeningSocket {
    int fd;
    ListenerSpec spec;
  };
  // What an epoll event is about: a number and what of it, in one word.
  enum class Kind : uint64_t { kListener, kWake, kSocket, kProcess, kOrphan };
  static uint64_t Data(Kind kind, uint64_t number) {
    return number << 3 | static_cast<uint64_t>(kind);
  }

  void Run();
  void Handle(Kind kind, uint64_t number, uint32_t events);
  void AcceptAll();
  int Timeout() const;
  void Expire();
  void Take(UniqueFd socket, const ListenerSpec& spec);
  absl::Status Watch(int fd, Kind kind, uint64_t number, uint32_t events);

  // False: the connection is over, `peer` is gone.
  bool ReadSome(Peer& peer);
  void Dispatch(Peer& peer, const v1::ClientFrame& frame);
  void Greet(Peer& peer, const v1::Hello& hello);
  void Supersede(const Identity& who, const std::string& secret);
  void Acknowledged(Peer& peer, const v1::GrantAck& ack);
  void Called(Peer& peer, const v1::Call& call);
  void Released(Peer& peer, const v1::Call& call);
  void Send(Peer& peer, const v1::ServerFrame& frame);
  // Of a session; null where it has none now.
  std::shared_ptr<FdConnection> ConnectionOf(SessionId session)
      HP_EXCLUDES(mu_);
  void SayGoodbye(Peer& peer, const absl::Status& why);
  void EndSession(Peer& peer, bool process_dead);
  void End(uint64_t number, bool process_dead);
  void ProcessDied(uint64_t orphan);
  void StopAll();

  const Options options_;
  Domains* const domains_;
  LeaseManager* manager_ = nullptr;  // set before the thread starts
  ClientCalls* calls_ = nullptr;     // likewise
  std::vector<ListeningSocket> listeners_;
  Reaper reaper_;
  UniqueFd epoll_;
  UniqueFd wake_;  // eventfd: stop
  std::thread thread_;

  // Of the epoll thread.
  Accepting accepting_;
  Accepting::Next accept_next_ = Accepting::Next::kAgain;
  FrameReader reader_;
  std::map<uint64_t, Peer> peers_;
  std::map<uint64_t, Orphan> orphans_;
  // When to look at which peer or orphan; entries can be out of date.
  std::multimap<absl::Time, uint64_t> deadlines_;
  uint64_t next_number_ = 1;

  Mutex mu_;
  absl::flat_hash_map<SessionId, std::shared_ptr<FdConnection>> sessions_
      HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_FD_CHANNEL_H_
