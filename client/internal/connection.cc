#include "client/internal/connection.h"

#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/internal/errors.h"
#include "client/internal/transport.h"
#include "client/internal/unix_socket.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

constexpr char kSessionKey[] = "hugepool-session-bin";
// The daemon answers a Hello at once; it accepts on a thread of its own.
constexpr absl::Duration kHelloTimeout = absl::Seconds(2);
constexpr absl::Duration kPresentTimeout = absl::Seconds(1);
// Between two looks for a daemon that restarts.
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);
// A daemon that does not know a session made a moment ago will not learn.
constexpr int kMaxUnknownSession = 2;

// Unique over processes and restarts: request ids make retries idempotent.
std::string RandomPrefix() {
  uint64_t bits[2] = {};
  if (getrandom(bits, sizeof bits, 0) != sizeof bits) {
    bits[0] = static_cast<uint64_t>(absl::GetCurrentTimeNanos());
    bits[1] = static_cast<uint64_t>(getpid());
  }
  return absl::StrCat(absl::Hex(bits[0], absl::kZeroPad16),
                      absl::Hex(bits[1], absl::kZeroPad16));
}

absl::Duration FromProto(const google::protobuf::Duration& d) {
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

}  // namespace

Connection::Connection(ConnectOptions options)
    : options_(std::move(options)),
      fd_path_(absl::StrCat(options_.dir, "/fd.sock")),
      grpc_path_(absl::StrCat(options_.dir, "/grpc.sock")),
      pid_(getpid()),
      request_prefix_(RandomPrefix()) {}

Connection::~Connection() {
  if (!InForkedChild()) return;
  // gRPC's threads and the keeper's do not exist here: taking them down would
  // wait for them. They are left to the end of the process.
  new std::shared_ptr<Session>(std::move(session_));
  static_cast<void>(keeper_.release());
}

absl::StatusOr<std::shared_ptr<Connection>> Connection::Connect(
    ConnectOptions options) {
  HP_ASSIGN_OR_RETURN(options.dir, SocketDirectory(options.dir));
  if (options.client_name.empty()) {
    options.client_name = program_invocation_short_name;
  }
  std::shared_ptr<Connection> connection(new Connection(std::move(options)));
  HP_RETURN_IF_ERROR(connection->GetSession(absl::InfinitePast()).status());
  return connection;
}

bool Connection::InForkedChild() const { return getpid() != pid_; }

absl::Status Connection::CheckProcess() const {
  if (!InForkedChild()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this connection belongs to process ", pid_,
                   " and cannot be used in a forked child: connect anew after "
                   "exec"));
}

std::string Connection::NextRequestId() {
  return absl::StrCat(request_prefix_, "-",
                      next_request_.fetch_add(1, std::memory_order_relaxed));
}

absl::StatusOr<std::shared_ptr<Connection::Session>> Connection::OpenSession(
    const std::string& resume_secret) {
  auto session = std::make_shared<Session>();
  HP_ASSIGN_OR_RETURN(session->fds,
                      FdChannel::Connect(fd_path_, options_.client_name,
                                         resume_secret, kHelloTimeout));
  session->secret = session->fds->welcome().session_secret();
  session->channel = OpenChannel(grpc_path_);
  session->stub = v1::HugePool::NewStub(session->channel);
  return session;
}

absl::StatusOr<std::shared_ptr<Connection::Session>> Connection::GetSession(
    absl::Time give_up) {
  HP_RETURN_IF_ERROR(CheckProcess());
  // Whoever finds the session broken makes a new one; the others need it as
  // much and wait here.
  MutexLock lock(&mu_);
  if (session_ != nullptr && !session_->stale.load(std::memory_order_relaxed) &&
      !session_->fds->Broken()) {
    return session_;
  }
  const std::string secret = session_ != nullptr ? session_->secret : "";
  for (absl::Duration pause = kFirstPause;;
       pause = std::min(pause * 2, kLongestPause)) {
    auto session = OpenSession(secret);
    if (session.ok()) {
      session_ = *std::move(session);
      TakeUpLeases(session_->fds.get());
      if (keeper_ != nullptr) WatchSession();
      return session_;
    }
    const absl::Time now = absl::Now();
    if (!IsTransportFailure(session.status()) || now >= give_up) {
      return session.status();
    }
    absl::SleepFor(std::min(pause, give_up - now));
  }
}

void Connection::WatchSession() {
  if (!options_.watch) return;
  if (keeper_ == nullptr) {
    keeper_ = std::make_unique<SessionKeeper>(
        [this] { return ReconnectForLeases(); });
  }
  // Without a descriptor to spare the next call reconnects, as with watch off.
  keeper_->Watch(session_->fds->fd()).IgnoreError();
}

bool Connection::ReconnectForLeases() {
  {
    MutexLock lock(&mu_);
    if (known_.empty()) return true;
  }
  // One try: callers that need the lock have budgets of their own.
  return GetSession(absl::InfinitePast()).ok();
}

void Connection::TakeUpLeases(FdChannel* fds) {
  const v1::Welcome& welcome = fds->welcome();
  for (auto& [id, known] : known_) {
    const bool listed =
        std::find(welcome.leases().begin(), welcome.leases().end(), id) !=
        welcome.leases().end();
    fds->NoteHeld(id);
    if (listed || known.lost) continue;
    // MEMORY and NAMED leases live without a session; only the daemon's answer
    // to their descriptors could tell whether it has them.
    const bool session_lease = known.lifetime != v1::LIFETIME_MEMORY &&
                               known.lifetime != v1::LIFETIME_NAMED;
    if (welcome.resumed() && !session_lease) continue;
    bool adopted = false;
    if (!std::exchange(known.presented, true)) {
      std::vector<int> numbers;
      for (const UniqueFd& fd : *known.fds) numbers.push_back(fd.get());
      const auto result =
          fds->Present(id, known.generation, numbers, kPresentTimeout);
      adopted = result.ok() && result->adopted();
    }
    known.lost = session_lease && !adopted;
  }
}

absl::Status Connection::CallOnce(Session* session, absl::Time deadline,
                                  Call call) {
  grpc::ClientContext context;
  context.AddMetadata(kSessionKey, session->secret);
  SetDeadline(&context, deadline);
  const grpc::Status status = call(session->stub.get(), &context);
  if (status.ok()) return absl::OkStatus();
  return CallStatus(status, grpc_path_);
}

absl::Status Connection::CallAndCollect(Session* session, absl::Time deadline,
                                        Call call, FdChannel::Pending* pending,
                                        ReceivedGrant* grant) {
  HP_RETURN_IF_ERROR(CallOnce(session, deadline, call));
  if (pending == nullptr) return absl::OkStatus();
  HP_ASSIGN_OR_RETURN(*grant,
                      session->fds->Collect(pending, options_.frame_timeout));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Connection::Session>> Connection::CallWithRetry(
    Call call, absl::Duration extra_wait, const std::string* request_id,
    ReceivedGrant* grant) {
  absl::Time now = absl::Now();
  const absl::Time deadline = now + extra_wait + options_.call_timeout;
  // Starts anew with the first failure: it can come after a long wait.
  absl::Time give_up = now + options_.reconnect_budget;
  absl::Duration pause = kFirstPause;
  int unknown_session = 0;
  std::shared_ptr<Session> session;
  // Lives as long as the session: frames of a first try whose reply was lost
  // must not be nacked while the second is under way.
  std::optional<FdChannel::Pending> pending;
  for (int attempt = 0;; ++attempt) {
    HP_ASSIGN_OR_RETURN(std::shared_ptr<Session> current, GetSession(give_up));
    if (current != session) {
      pending.reset();
      session = std::move(current);
      if (request_id != nullptr) {
        pending.emplace(session->fds.get(), *request_id);
      }
    }
    const absl::Status status =
        CallAndCollect(session.get(), deadline, call,
                       pending.has_value() ? &*pending : nullptr, grant);
    if (status.ok()) return session;
    if (ReasonOf(status) == v1::ERROR_REASON_NO_FD_CHANNEL) {
      session->stale.store(true, std::memory_order_relaxed);
      if (++unknown_session > kMaxUnknownSession) return status;
    } else if (!IsTransportFailure(status) &&
               // The first try is still under way in the daemon.
               !(attempt > 0 && absl::IsAborted(status))) {
      return status;
    }
    now = absl::Now();
    if (attempt == 0) give_up = now + options_.reconnect_budget;
    if (now >= give_up) return status;
    // The second try comes at once: a daemon that restarts is there again, and
    // GetSession waits for one that is not. The later ones do not hurry.
    if (attempt > 0) {
      absl::SleepFor(std::min(pause, give_up - now));
      pause = std::min(pause * 2, kLongestPause);
    }
  }
}

absl::StatusOr<HeldLease> Connection::TakeGrant(Session* session,
                                                ReceivedGrant grant,
                                                v1::Lease lease,
                                                const MapOptions& options) {
  const auto refuse = [&](const absl::Status& status) {
    grant.fds.clear();
    session->fds->Nack(grant.lease_id, grant.generation,
                       std::string(status.message()));
    return status;
  };
  if (lease.lease_id() != grant.lease_id) {
    return refuse(absl::InternalError(
        absl::StrCat("the reply is about lease ", lease.lease_id(),
                     ", the descriptors about ", grant.lease_id)));
  }
  if (absl::Status status = CheckExtents(lease, grant.fds); !status.ok()) {
    return refuse(status);
  }
  HeldLease held;
  if (options.map) {
    auto segments = MapLease(lease, grant.fds, options.dontfork);
    if (!segments.ok()) return refuse(segments.status());
    held.segments = *std::move(segments);
  }
  HP_RETURN_IF_ERROR(session->fds->Ack(grant.lease_id, grant.generation));
  held.fds =
      std::make_shared<const std::vector<UniqueFd>>(std::move(grant.fds));
  held.lease = std::move(lease);
  MutexLock lock(&mu_);
  known_[held.lease.lease_id()] = {.generation = grant.generation,
                                   .lifetime = held.lease.lifetime(),
                                   .fds = held.fds};
  if (keeper_ == nullptr) WatchSession();
  return held;
}

absl::StatusOr<HeldLease> Connection::Acquire(v1::AcquireRequest request,
                                              const MapOptions& options) {
  request.set_request_id(NextRequestId());
  v1::AcquireResponse response;
  ReceivedGrant grant;
  HP_ASSIGN_OR_RETURN(
      const std::shared_ptr<Session> session,
      CallWithRetry(
          [&](v1::HugePool::Stub* stub, grpc::ClientContext* context) {
            return stub->Acquire(context, request, &response);
          },
          FromProto(request.max_wait()), &request.request_id(), &grant));
  HP_ASSIGN_OR_RETURN(HeldLease held,
                      TakeGrant(session.get(), std::move(grant),
                                std::move(*response.mutable_lease()), options));
  held.waited = FromProto(response.waited());
  return held;
}

absl::StatusOr<HeldLease> Connection::Attach(v1::AttachRequest request,
                                             const MapOptions& options) {
  request.set_request_id(NextRequestId());
  v1::AttachResponse response;
  ReceivedGrant grant;
  HP_ASSIGN_OR_RETURN(
      const std::shared_ptr<Session> session,
      CallWithRetry(
          [&](v1::HugePool::Stub* stub, grpc::ClientContext* context) {
            return stub->Attach(context, request, &response);
          },
          absl::ZeroDuration(), &request.request_id(), &grant));
  return TakeGrant(session.get(), std::move(grant),
                   std::move(*response.mutable_lease()), options);
}

absl::StatusOr<Bytes> Connection::DoRelease(const v1::ReleaseRequest& request) {
  v1::ReleaseResponse response;
  HP_RETURN_IF_ERROR(
      CallWithRetry(
          [&](v1::HugePool::Stub* stub, grpc::ClientContext* context) {
            return stub->Release(context, request, &response);
          },
          absl::ZeroDuration(), nullptr, nullptr)
          .status());
  return Bytes(response.released_bytes());
}

absl::StatusOr<Bytes> Connection::Release(const std::string& lease_id) {
  HP_RETURN_IF_ERROR(CheckProcess());
  Forget(lease_id);
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  return DoRelease(request);
}

absl::StatusOr<Bytes> Connection::ReleaseByName(const std::string& name) {
  HP_RETURN_IF_ERROR(CheckProcess());
  v1::ReleaseRequest request;
  request.set_name(name);
  return DoRelease(request);
}

void Connection::Forget(const std::string& lease_id) {
  if (InForkedChild()) return;  // another thread may have held the lock
  MutexLock lock(&mu_);
  known_.erase(lease_id);
  if (session_ != nullptr) session_->fds->ForgetLease(lease_id);
}

LeaseStanding Connection::Standing(const std::string& lease_id) {
  if (InForkedChild()) return LeaseStanding::kHeld;
  MutexLock lock(&mu_);
  if (const auto it = known_.find(lease_id);
      it != known_.end() && it->second.lost) {
    return LeaseStanding::kLost;
  }
  return session_ != nullptr && session_->fds->Revoked(lease_id)
             ? LeaseStanding::kRevoked
             : LeaseStanding::kHeld;
}

std::string Connection::SessionId() {
  MutexLock lock(&mu_);
  return session_ != nullptr ? session_->fds->welcome().session_id() : "";
}

}  // namespace hugepool::client
