#include "client/internal/connection.h"

#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/internal/errors.h"
#include "client/internal/unix_socket.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

// The daemon answers a Hello at once; it accepts on a thread of its own.
constexpr absl::Duration kHelloTimeout = absl::Seconds(2);
constexpr absl::Duration kPresentTimeout = absl::Seconds(1);
// Between two looks for a daemon that restarts.
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);

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

// What copies may take beside everything else, at a tenth of what they reach
// where they were measured.
absl::Duration CopyTime(const v1::AcquireRequest& request) {
  double bytes = 0;
  for (const v1::Segment& s : request.segments()) {
    if (s.has_copy_from()) bytes += static_cast<double>(s.size_bytes());
  }
  return absl::Seconds(bytes / 1e9);
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
  const std::string id = NextRequestId();
  request.set_request_id(id);
  const absl::Duration max_wait =
      FromProto(request.max_wait()) + CopyTime(request);
  v1::Call call;
  *call.mutable_acquire() = std::move(request);
  Tries tries;
  HP_ASSIGN_OR_RETURN(Result result, CallWithRetry(call, max_wait, id, &tries));
  v1::AcquireResponse& response = *result.answer.mutable_acquire();
  HP_ASSIGN_OR_RETURN(HeldLease held,
                      TakeGrant(result.session.get(), std::move(result.grant),
                                std::move(*response.mutable_lease()), options));
  held.waited = FromProto(response.waited());
  return held;
}

absl::StatusOr<HeldLease> Connection::Attach(v1::AttachRequest request,
                                             const MapOptions& options) {
  const std::string id = NextRequestId();
  request.set_request_id(id);
  v1::Call call;
  *call.mutable_attach() = std::move(request);
  Tries tries;
  HP_ASSIGN_OR_RETURN(Result result,
                      CallWithRetry(call, absl::ZeroDuration(), id, &tries));
  v1::AttachResponse& response = *result.answer.mutable_attach();
  return TakeGrant(result.session.get(), std::move(result.grant),
                   std::move(*response.mutable_lease()), options);
}

absl::StatusOr<Bytes> Connection::DoRelease(v1::ReleaseRequest request,
                                            Tries* tries) {
  v1::Call call;
  *call.mutable_release() = std::move(request);
  HP_ASSIGN_OR_RETURN(Result result,
                      CallWithRetry(call, absl::ZeroDuration(), "", tries));
  return Bytes(result.answer.release().released_bytes());
}

absl::StatusOr<Bytes> Connection::Release(const std::string& lease_id) {
  HP_RETURN_IF_ERROR(CheckProcess());
  Forget(lease_id);
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  Tries tries;
  return DoRelease(std::move(request), &tries);
}

absl::StatusOr<Bytes> Connection::ReleaseByName(const std::string& name) {
  HP_RETURN_IF_ERROR(CheckProcess());
  v1::ReleaseRequest request;
  request.set_name(name);
  Tries tries;
  return DoRelease(std::move(request), &tries);
}

absl::StatusOr<Bytes> Connection::ReleaseParts(v1::ReleaseRequest request,
                                               Tries* tries) {
  if (request.ranges().empty()) {
    // For the daemon that would be the whole lease.
    return absl::InvalidArgumentError("no ranges to release were given");
  }
  Bytes size;
  for (const auto& range : request.ranges()) size += Bytes(range.size_bytes());
  auto released = DoRelease(std::move(request), tries);
  if (tries->done_before) return size;
  return released;
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
