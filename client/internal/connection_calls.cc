// How a Connection makes its calls: over which channel, and again where one
// broke.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "client/internal/connection.h"
#include "client/internal/errors.h"
#include "client/internal/transport.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

// The daemon reads frames of up to 64 KiB.
constexpr size_t kMaxCallBytes = 60 << 10;
constexpr char kSessionKey[] = "hugepool-session-bin";
// Between two tries.
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);
// A daemon that does not know a session made a moment ago will not learn.
constexpr int kMaxUnknownSession = 2;

}  // namespace

absl::StatusOr<v1::Answer> Connection::CallOverGrpc(Session* session,
                                                    absl::Time deadline,
                                                    const v1::Call& call) {
  std::call_once(session->grpc_made, [&] {
    session->stub = v1::HugePool::NewStub(OpenChannel(grpc_path_));
  });
  grpc::ClientContext context;
  context.AddMetadata(kSessionKey, session->secret);
  SetDeadline(&context, deadline);
  v1::Answer answer;
  grpc::Status status;
  switch (call.method_case()) {
    case v1::Call::kAcquire:
      status = session->stub->Acquire(&context, call.acquire(),
                                      answer.mutable_acquire());
      break;
    case v1::Call::kAttach:
      status = session->stub->Attach(&context, call.attach(),
                                     answer.mutable_attach());
      break;
    case v1::Call::kRelease:
      status = session->stub->Release(&context, call.release(),
                                      answer.mutable_release());
      break;
    case v1::Call::METHOD_NOT_SET:
      return absl::InternalError("a call without a method");
  }
  if (!status.ok()) return CallStatus(status, grpc_path_);
  return answer;
}

absl::StatusOr<v1::Answer> Connection::CallOnce(Session* session,
                                                absl::Time deadline,
                                                const v1::Call& call,
                                                FdChannel::Pending* pending) {
  if (options_.over_grpc || !session->fds->welcome().calls() ||
      call.ByteSizeLong() > kMaxCallBytes) {
    return CallOverGrpc(session, deadline, call);
  }
  auto answer = session->fds->Ask(pending, call, deadline);
  // What the daemon itself says has a detail and needs no path.
  if (!answer.ok() && !ErrorDetailOf(answer.status()).has_value()) {
    return Annotate(answer.status(), fd_path_);
  }
  return answer;
}

void Connection::NoteFailure(const absl::Status& status, Session* session,
                             Tries* tries) {
  const v1::ErrorReason reason = ReasonOf(status);
  if (reason == v1::ERROR_REASON_NO_FD_CHANNEL) return;
  // What a daemon says when it ends the connection looks like a refusal, and is
  // no answer to the call.
  if (!IsRefusal(status) || session->fds->Broken()) {
    tries->unsure = true;
  } else if (absl::IsFailedPrecondition(status)) {
    tries->done_before =
        tries->unsure && (reason == v1::ERROR_REASON_UNSPECIFIED ||
                          reason == v1::ERROR_REASON_BAD_REQUEST);
  }
}

absl::StatusOr<Connection::Result> Connection::CallWithRetry(
    const v1::Call& call, absl::Duration extra_wait,
    const std::string& request_id, Tries* tries) {
  absl::Time now = absl::Now();
  const absl::Time deadline = now + extra_wait + options_.call_timeout;
  // Starts anew with the first failure: it can come after a long wait.
  absl::Time give_up = now + options_.reconnect_budget;
  absl::Duration pause = kFirstPause;
  int unknown_session = 0;
  Result result;
  // Lives as long as the session: frames of a first try whose reply was lost
  // must not be nacked while the second is under way.
  std::optional<FdChannel::Pending> pending;
  for (int attempt = 0;; ++attempt) {
    HP_ASSIGN_OR_RETURN(std::shared_ptr<Session> current, GetSession(give_up));
    if (current != result.session) {
      pending.reset();
      result.session = std::move(current);
      pending.emplace(result.session->fds.get(), request_id);
    }
    auto answer = CallOnce(result.session.get(), deadline, call, &*pending);
    absl::Status status = answer.status();
    if (status.ok() && !request_id.empty()) {
      auto grant =
          result.session->fds->Collect(&*pending, options_.frame_timeout);
      status = grant.status();
      if (grant.ok()) result.grant = *std::move(grant);
    }
    if (status.ok()) {
      result.answer = *std::move(answer);
      return result;
    }
    NoteFailure(status, result.session.get(), tries);
    if (ReasonOf(status) == v1::ERROR_REASON_NO_FD_CHANNEL) {
      result.session->stale.store(true, std::memory_order_relaxed);
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

}  // namespace hugepool::client
