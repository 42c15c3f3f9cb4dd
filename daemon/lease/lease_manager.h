// Sessions and leases: who has what, since when, until when.
//
// The life of a lease:
//
//   Acquire -> (wait) -> sending -> Granted -> ack -> Held -> Release or end of
//   session -> Returning -> all memory back -> gone
//
// Anything that goes wrong between sending and ack rolls the lease back, which
// is a return like any other: descriptors once sent cannot be recalled.
#ifndef HUGEPOOL_DAEMON_LEASE_LEASE_MANAGER_H_
#define HUGEPOOL_DAEMON_LEASE_LEASE_MANAGER_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/base/mutex.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/events.h"
#include "daemon/lease/granter.h"
#include "daemon/lease/lease_parts.h"
#include "daemon/lease/types.h"
#include "daemon/pool/host.h"

namespace hugepool {

// Thread-safe. Lock order: mu_, then what Host locks. No system call, send or
// callback under mu_.
class LeaseManager {
 public:
  struct Options {
    absl::Duration acknowledge_within = absl::Seconds(5);
    absl::Duration resume_grace = absl::Seconds(10);
    // Descriptors sent and not acknowledged. They count against the daemon's
    // own RLIMIT_NOFILE in the kernel (ETOOMANYREFS), for all clients at once.
    uint32_t max_unacknowledged_fds_per_session = 512;
    uint32_t max_unacknowledged_fds = 2048;
    uint32_t max_sessions = 4096;
    uid_t daemon_uid = 0;
    // Every byte of what is lent is looked at once more first.
    bool verify_at_grant = false;
    // Upper half of all lease ids, so that they differ between daemons' lives.
    uint32_t boot_id = 1;
  };
  struct Deps {
    Host* host;
    ExtentFiles* files;
    GrantSender* sender;
    Executor* executor;
    const Clock* clock;
    Domains* domains;
    NewsSink* news;
    // There is work for the stewards of this pool. Must not block.
    std::function<void(const Pool&)> wake;
    sys::HolderWatch* watch = nullptr;  // may stay null
    // Where partly released extents wait; none: parts cannot be released.
    LeaseParts::QueueOf deferred = [](const Pool&) {
      return static_cast<DeferredQueue*>(nullptr);
    };
  };

  LeaseManager(const Options& options, const Deps& deps);

  // --- Sessions ------------------------------------------------------------------
  struct SessionInfo {
    SessionId id;
    std::string secret;  // 16 random bytes
    uint64_t epoch = 0;  // of this connection of the session
    bool resumed = false;
    std::vector<LeaseId> leases;
  };
  // A new session, or the one with `resume_secret` where it still lives and
  // belongs to the same uid and domain. RESOURCE_EXHAUSTED over max_sessions.
  absl::StatusOr<SessionInfo> OpenSession(const Identity& who,
                                          const std::string& resume_secret);
  // The session's connection of that epoch is gone. With `process_dead`, or
  // with nothing to resume, it ends now, else after the resume grace.
  void CloseSession(SessionId session, uint64_t epoch, bool process_dead);
  // The session of a secret, if the caller may use it: NO_FD_CHANNEL or
  // NOT_ALLOWED otherwise.
  absl::StatusOr<SessionId> Authenticate(const std::string& secret,
                                         const Identity& caller) const;

  // --- Leases ----------------------------------------------------------------------
  struct Granted {
    Lease lease;
    uint32_t frames = 0;
    absl::Duration waited;
  };
  using GrantCallback = std::function<void(absl::StatusOr<Granted>)>;

  // Calls `done` exactly once: on the caller's thread where no wait is needed,
  // on the executor otherwise. Idempotent by request_id within the session.
  void Acquire(SessionId session, AcquireSpec spec, GrantCallback done);
  // The caller of a waiting Acquire went away.
  void CancelAcquire(SessionId session, const std::string& request_id);
  // Sends a NAMED lease's descriptors once more; `done` on the executor.
  void Attach(SessionId session, const std::string& request_id, LeaseId lease,
              const std::string& name, GrantCallback done);

  absl::Status Acknowledge(SessionId session, LeaseId lease,
                           uint64_t generation);
  absl::Status Refuse(SessionId session, LeaseId lease, uint64_t generation,
                      const std::string& reason);

  // Ends a lease of the caller's uid and domain (any lease for an admin); the
  // bytes given up. Ending one that is Returning, or that ended by itself not
  // long ago (its last descriptor was closed), gives 0.
  absl::StatusOr<Bytes> Release(const Identity& caller, LeaseId lease,
                                const std::string& name);

  // Gives up parts of a lease, which lives on; the bytes. They stay charged
  // until a pool has taken them. Takes no lock but that of a queue, and that only
  // for an extent that is not queued yet; with a name it is looked up first. The
  // same who may Release(); errors as that and LeaseParts::Release().
  absl::StatusOr<Bytes> ReleaseRanges(const Identity& caller, LeaseId lease,
                                      const std::string& name,
                                      const std::vector<ReleaseRange>& ranges);

  // Takes the memory of a lease from whoever has it, one that has ended and is
  // still held included: the holder is told, has `notice` to give it back by
  // itself, and then the next access of any holder is a SIGBUS. `done` is
  // called once, with the bytes, when all of it is back: here, or on the
  // executor. Errors, with nothing changed: LEASE_GONE, and FAILED_PRECONDITION
  // while its grant is being made, or where MayRevoke() says why not.
  using RevokeCallback = std::function<void(absl::StatusOr<Bytes>)>;
  void Revoke(LeaseId lease, absl::Duration notice, RevokeCallback done);
  // Ends a lease as Release() does and takes the memory of one that can be
  // revoked, for those whose holders are to be ended. LEASE_GONE, and
  // FAILED_PRECONDITION while its grant is being made.
  absl::Status EndForKill(LeaseId lease);

  // From stewards, on the executor.
  void OnNews(const PoolNews& news);

  // Everybody who waits gets UNAVAILABLE (shutdown).
  void CancelAllWaits();

  // --- Views -------------------------------------------------------------------------
  absl::StatusOr<Lease> Get(const Identity& caller, LeaseId lease,
                            const std::string& name) const;
  // Leases visible to the caller with id > `after`, at most `limit`.
  std::vector<Lease> List(const Identity& caller, LeaseId after, size_t limit,
                          std::optional<LeasePhase> phase) const;
  struct WaitView {
    std::string request_id;
    DomainId domain;
    Bytes wanted;
    Bytes available;
    uint32_t position = 0;
    absl::Duration waited;
  };
  std::vector<WaitView> Waits() const;
  struct Counts {
    uint32_t sessions = 0;
    uint32_t leases = 0;
    uint32_t descriptors_in_flight = 0;
  };
  Counts Count() const;

  // Books of leases against books of pools. For tests and the audit; call when
  // no grant is being sent.
  absl::Status CheckInvariants() const;

 private:
  struct Session {
    SessionId id;
    Identity who;
    std::string secret;
    bool connected = true;
    uint64_t epoch = 1;
    uint32_t fds_in_flight = 0;
    std::map<std::string, LeaseId> by_request;  // waiting and granted ones
    std::set<LeaseId> leases;
  };
  // An extent of another lease that is being copied from.
  struct Reading {
    Pool* pool;
    SlotId slot;
  };
  // What is to be done to an extent before it is sent.
  struct Task {
    Pool* pool;
    SlotId slot;
    Preparation preparation;
    Bytes distance;  // of what is touched first
  };
  // A lease and what only the manager knows of it.
  struct Entry {
    Lease lease;
    bool waiting = false;   // in the Host's queue, no extents yet
    bool starting = false;  // between Acquire and the first answer of Host
    bool sending = false;   // the Granter has its files: nobody else may
    bool doomed = false;    // to be ended as soon as sending is over
    // While sending: extents that stewards still prepare, those that they could
    // not, what they read, and the first thing that went wrong.
    size_t preparing = 0;
    std::set<ExtentId> failed;
    std::vector<Reading> reading;
    absl::Status prepared;
    AcquireSpec spec;
    int attempts = 0;
    absl::Duration max_wait;  // as asked for, or a moment
    absl::Time started;
    GrantCallback done;
    std::vector<RevokeCallback> revoking;  // to be told when all is back
  };
  // A holder that closes its memory and then releases it can find the lease
  // ended already. So many ends are remembered to tell that from a mistake.
  static constexpr size_t kEnded = 4096;
  // Descriptors on their way for one generation of a lease.
  struct InFlight {
    SessionId session;
    uint32_t fds = 0;
  };
  using Key = std::pair<LeaseId, uint64_t>;
  // Things to do once mu_ is released.
  struct After;

  absl::Status CheckSpec(const AcquireSpec& spec) const;
  absl::StatusOr<Entry*> Book(SessionId session, AcquireSpec& spec,
                              GrantCallback& done) HP_REQUIRES(mu_);
  HostRequest RequestFor(const Entry& entry) const HP_REQUIRES(mu_);
  void Start(LeaseId id);
  void Fail(LeaseId id, const absl::Status& why);
  void Wait(LeaseId id);
  void FinishTake(LeaseId id, Taken taken);
  absl::Status BookTaken(LeaseId id, Taken& taken, Lease* copy,
                         std::vector<Task>* tasks, After* after)
      HP_REQUIRES(mu_);
  // lease_prepare.cc
  absl::StatusOr<std::vector<const TakenExtent*>> FindSource(
      const Identity& caller, const SegmentRequest& segment) const
      HP_REQUIRES(mu_);
  absl::Status PlanTasks(Entry& entry, std::vector<Task>* tasks)
      HP_REQUIRES(mu_);
  absl::Status StartReading(Entry& entry, const CopySource& source,
                            const std::vector<const TakenExtent*>& extents)
      HP_REQUIRES(mu_);
  void StopReading(Entry& entry, After* after) HP_REQUIRES(mu_);
  void StartTasks(std::vector<Task> tasks);
  bool NotePrepared(const PreparedExtent& prepared) HP_REQUIRES(mu_);
  void FinishTasks(LeaseId id);
  void GiveUpUnsent(Entry& entry) HP_REQUIRES(mu_);
  absl::Status MayFly(const Session& session, uint32_t fds) const
      HP_REQUIRES(mu_);
  void Fly(Session& session, const Lease& lease) HP_REQUIRES(mu_);
  void FinishSend(LeaseId id, absl::StatusOr<uint32_t> frames);
  absl::StatusOr<Granted> AttachNow(SessionId session,
                                    const std::string& request_id, LeaseId id,
                                    const std::string& name);
  // Takes a waiting request out of the pools' queue; false: it is not there (any
  // more).
  bool LeaveQueue(LeaseId id);
  void ExpireWait(LeaseId id);
  // Somebody who waited left, or there is more in stock.
  void ServeWaiters();
  void ExpectAcknowledgement(const Lease& lease) HP_REQUIRES(mu_);
  void SweepGrants();

  Session* FindSession(SessionId id) HP_REQUIRES(mu_);
  Entry* FindEntry(LeaseId id) HP_REQUIRES(mu_);
  const Entry* FindVisible(const Identity& caller, LeaseId lease,
                           const std::string& name) const HP_REQUIRES(mu_);
  void Landed(LeaseId lease, uint64_t generation) HP_REQUIRES(mu_);
  void EndLease(Entry& entry, LeaseNews::Kind why, After* after)
      HP_REQUIRES(mu_);
  void EndSession(SessionId id, uint64_t epoch);
  void DropSession(Session& session, After* after) HP_REQUIRES(mu_);
  void EraseLease(LeaseId id, After* after) HP_REQUIRES(mu_);
  bool EndedLately(const Identity& caller, LeaseId id) const HP_REQUIRES(mu_);
  void NoteShrunk(const ShrunkExtent& shrunk) HP_REQUIRES(mu_);
  // lease_revoke.cc
  absl::StatusOr<Entry*> FindToRevoke(LeaseId id) HP_REQUIRES(mu_);
  absl::Status MayRevoke(const Lease& lease) const HP_REQUIRES(mu_);
  void TakeAway(LeaseId id);
  void TakeAwayLocked(Entry& entry, After* after) HP_REQUIRES(mu_);
  void Unlink(const Entry& entry) HP_REQUIRES(mu_);
  void Run(After after) HP_EXCLUDES(mu_);
  void Publish(LeaseNews::Kind kind, const Lease& lease, After* after)
      HP_REQUIRES(mu_);

  const Options options_;
  const Deps deps_;
  Granter granter_;
  PartsIndex parts_;  // of granted and held leases; written under mu_

  mutable Mutex mu_;
  std::map<LeaseId, std::unique_ptr<Entry>> leases_ HP_GUARDED_BY(mu_);
  std::map<SessionId, std::unique_ptr<Session>> sessions_ HP_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, SessionId> by_secret_ HP_GUARDED_BY(mu_);
  std::map<std::pair<DomainId, std::string>, LeaseId> by_name_
      HP_GUARDED_BY(mu_);
  std::map<Key, InFlight> in_flight_ HP_GUARDED_BY(mu_);
  // The last kEnded leases that ended, and whose they were.
  std::map<LeaseId, Identity> ended_ HP_GUARDED_BY(mu_);
  uint32_t fds_in_flight_ HP_GUARDED_BY(mu_) = 0;
  // By when grants must be acknowledged, oldest first; met ones are dropped when
  // the sweep comes by.
  std::deque<std::pair<absl::Time, Key>> deadlines_ HP_GUARDED_BY(mu_);
  bool sweeping_ HP_GUARDED_BY(mu_) = false;  // a sweep is posted
  uint64_t next_lease_ HP_GUARDED_BY(mu_) = 1;
  uint64_t next_session_ HP_GUARDED_BY(mu_) = 1;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_LEASE_MANAGER_H_
