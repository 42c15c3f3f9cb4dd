#include "client/internal/fd_channel.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/internal/errors.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

constexpr uint32_t kProtocolVersion = 1;
// A lease of more frames than this is not believed (a million descriptors).
constexpr uint32_t kMaxParts = 4096;

absl::Status FdsLost(size_t came, uint32_t expected) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return absl::ResourceExhaustedError(absl::StrCat(
      "only ", came, " of ", expected,
      " descriptors could be received (MSG_CTRUNC): the limit of open files of "
      "this process, RLIMIT_NOFILE, is ",
      limit.rlim_cur,
      "; raise it (ulimit -n), or ask for fewer extents. A security module can "
      "be the cause too"));
}

absl::Status Ended(const v1::Goodbye& goodbye) {
  const std::string text = absl::StrCat(
      "the daemon ended the connection: ",
      goodbye.text().empty() ? goodbye.error().hint() : goodbye.text());
  if (!goodbye.has_error()) return absl::UnavailableError(text);
  const absl::StatusCode code =
      goodbye.error().reason() == v1::ERROR_REASON_NOT_ALLOWED
          ? absl::StatusCode::kPermissionDenied
      : goodbye.error().retryable() ? absl::StatusCode::kUnavailable
                                    : absl::StatusCode::kFailedPrecondition;
  return WithDetail(absl::Status(code, text), goodbye.error());
}

}  // namespace

FdChannel::Pending::Pending(FdChannel* channel, std::string request_id)
    : channel_(channel), request_id_(std::move(request_id)) {
  if (request_id_.empty()) return;
  MutexLock lock(&channel_->mu_);
  channel_->pending_[request_id_] = this;
}

FdChannel::Pending::~Pending() {
  if (request_id_.empty()) return;
  {
    MutexLock lock(&channel_->mu_);
    channel_->pending_.erase(request_id_);
    if (complete_ && parts_seen_ == 0) return;  // collected
    // A grant that came although the call failed must not lie in the socket:
    // its descriptors would keep the memory alive.
    channel_->Drain();
  }
  if (parts_seen_ == 0) return;
  parts_.clear();
  channel_->SendNack(lease_id_, generation_, "the request was given up");
}

FdChannel::FdChannel(FrameSocket socket) : socket_(std::move(socket)) {}

absl::StatusOr<std::unique_ptr<FdChannel>> FdChannel::Connect(
    const std::string& path, const std::string& client_name,
    const std::string& resume_secret, absl::Duration timeout) {
  HP_ASSIGN_OR_RETURN(FrameSocket socket, FrameSocket::Connect(path));
  std::unique_ptr<FdChannel> channel(new FdChannel(std::move(socket)));
  if (absl::Status status =
          channel->Handshake(client_name, resume_secret, timeout);
      !status.ok()) {
    return Annotate(status, path);
  }
  return channel;
}

absl::Status FdChannel::Handshake(const std::string& client_name,
                                  const std::string& resume_secret,
                                  absl::Duration timeout) {
  v1::ClientFrame hello;
  hello.mutable_hello()->set_protocol_version(kProtocolVersion);
  hello.mutable_hello()->set_client_name(client_name);
  hello.mutable_hello()->set_resume_secret(resume_secret);
  HP_RETURN_IF_ERROR(socket_.Send(hello));
  auto frame = socket_.Read(absl::Now() + timeout);
  if (absl::IsNotFound(frame.status())) {
    return absl::UnavailableError(
        absl::StrCat("the daemon accepted the connection but did not answer "
                     "within ",
                     absl::FormatDuration(timeout)));
  }
  HP_RETURN_IF_ERROR(frame.status());
  if (frame->message.has_goodbye()) return Ended(frame->message.goodbye());
  if (!frame->message.has_welcome()) {
    return absl::InternalError("the daemon's first frame is not a Welcome");
  }
  welcome_ = std::move(*frame->message.mutable_welcome());
  if (welcome_.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the daemon speaks version ", welcome_.protocol_version(),
                     " of the fd channel's protocol, this library version ",
                     kProtocolVersion, ": update the older of the two"));
  }
  return absl::OkStatus();
}

void FdChannel::Lead(Pending* pending, absl::Time deadline,
                     absl::FunctionRef<bool()> done) {
  waiting_.insert(pending);
  while (!done() && broken_.ok()) {
    if (leader_) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) break;
      pending->wake_.WaitFor(&mu_, left);
      continue;
    }
    leader_ = true;
    mu_.Unlock();
    absl::StatusOr<ServerFrameAndFds> frame = socket_.Read(deadline);
    mu_.Lock();
    leader_ = false;
    if (frame.ok()) {
      Dispatch(*std::move(frame));
    } else if (absl::IsNotFound(frame.status())) {
      break;
    } else {
      Break(frame.status());
    }
  }
  waiting_.erase(pending);
  if (!leader_) PromoteAnother();
}

absl::StatusOr<v1::Answer> FdChannel::Ask(Pending* pending,
                                          const v1::Call& call,
                                          absl::Time deadline) {
  v1::ClientFrame frame;
  *frame.mutable_call() = call;
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    if (!broken_.ok()) return broken_;
    id = next_call_++;
    pending->answered_ = false;
    pending->answer_.Clear();
    asked_[id] = pending;
  }
  frame.mutable_call()->set_call_id(id);
  absl::Status status = socket_.Send(frame);
  bool answered = false;
  {
    MutexLock lock(&mu_);
    if (status.ok()) {
      Lead(pending, deadline, [pending] { return pending->answered_; });
      answered = pending->answered_;
      if (!answered) status = broken_;
    }
    asked_.erase(id);
  }
  HP_RETURN_IF_ERROR(status);
  if (!answered) {
    if (call.has_acquire()) {
      v1::ClientFrame cancel;
      cancel.mutable_cancel_call()->set_request_id(call.acquire().request_id());
      socket_.Send(cancel).IgnoreError();
    }
    return absl::DeadlineExceededError(
        "the daemon did not answer within the time that a call may take");
  }
  // Nobody else has it any more.
  HP_RETURN_IF_ERROR(FromAnswer(pending->answer_));
  return std::move(pending->answer_);
}

absl::StatusOr<ReceivedGrant> FdChannel::Collect(Pending* pending,
                                                 absl::Duration timeout) {
  const auto done = [pending] {
    return pending->complete_ || !pending->status_.ok();
  };
  MutexLock lock(&mu_);
  if (!done()) Lead(pending, absl::Now() + timeout, done);
  if (!pending->status_.ok()) return pending->status_;
  if (!pending->complete_) {
    if (!broken_.ok()) return broken_;
    return absl::DeadlineExceededError(
        absl::StrCat("the daemon granted the lease, but its descriptors did "
                     "not come within ",
                     absl::FormatDuration(timeout)));
  }
  ReceivedGrant grant;
  grant.lease_id = std::move(pending->lease_id_);
  grant.generation = pending->generation_;
  for (std::vector<UniqueFd>& part : pending->parts_) {
    if (grant.fds.empty()) {
      grant.fds = std::move(part);
    } else {
      grant.fds.insert(grant.fds.end(), std::make_move_iterator(part.begin()),
                       std::make_move_iterator(part.end()));
    }
  }
  pending->parts_.clear();
  pending->parts_seen_ = 0;
  // From here on a second copy of the frames is of a lease that we have.
  held_.insert(grant.lease_id);
  return grant;
}

void FdChannel::PromoteAnother() {
  // Any of them: one that has what it wants leaves, and comes by here again.
  if (!waiting_.empty()) (*waiting_.begin())->wake_.Signal();
}

void FdChannel::Dispatch(ServerFrameAndFds frame) {
  switch (frame.message.frame_case()) {
    case v1::ServerFrame::kGrant: {
      const v1::Grant grant = std::move(*frame.message.mutable_grant());
      DispatchGrant(grant, std::move(frame));
      return;
    }
    case v1::ServerFrame::kAnswer:
      return DispatchAnswer(std::move(*frame.message.mutable_answer()));
    case v1::ServerFrame::kRevokeNotice:
      revoked_.insert(frame.message.revoke_notice().lease_id());
      return;
    case v1::ServerFrame::kGoodbye:
      Break(Ended(frame.message.goodbye()));
      return;
    default:
      return;  // of a newer daemon; its descriptors are closed
  }
}

void FdChannel::DispatchAnswer(v1::Answer answer) {
  const auto it = asked_.find(answer.call_id());
  if (it == asked_.end()) return;  // of a call that was given up
  Pending* const pending = it->second;
  const bool more = answer.more();
  if (pending->answer_.call_id() == 0) {
    pending->answer_ = std::move(answer);
  } else {
    // Further extents, which merging appends.
    pending->answer_.MergeFrom(answer);
  }
  if (more) return;
  pending->answered_ = true;
  pending->wake_.Signal();
}

void FdChannel::DispatchGrant(const v1::Grant& grant, ServerFrameAndFds frame) {
  const auto it = pending_.find(grant.request_id());
  Pending* const pending = it == pending_.end() ? nullptr : it->second;
  if (pending == nullptr || pending->complete_ || !pending->status_.ok()) {
    // A second copy after a retry, or a call that was given up.
    const bool mine = held_.contains(grant.lease_id()) ||
                      (pending != nullptr && pending->complete_);
    frame.fds.clear();
    if (!mine) {
      SendNack(grant.lease_id(), grant.generation(), "nobody waits for it");
    }
    return;
  }
  if (frame.fds_lost || frame.fds.size() != grant.extents()) {
    const absl::Status status = FdsLost(frame.fds.size(), grant.extents());
    frame.fds.clear();
    pending->parts_.clear();
    pending->parts_seen_ = 0;
    SendNack(grant.lease_id(), grant.generation(),
             std::string(status.message()));
    FailPending(pending, status);
    return;
  }
  if (grant.part() >= grant.parts() || grant.parts() > kMaxParts) {
    frame.fds.clear();
    SendNack(grant.lease_id(), grant.generation(), "bad part number");
    FailPending(pending, absl::InternalError(
                             "the daemon sent a grant with a bad part number"));
    return;
  }
  AddPart(pending, grant, std::move(frame));
}

void FdChannel::AddPart(Pending* pending, const v1::Grant& grant,
                        ServerFrameAndFds frame) {
  if (pending->parts_seen_ == 0 || pending->lease_id_ != grant.lease_id() ||
      pending->generation_ != grant.generation() ||
      pending->parts_.size() != grant.parts()) {
    // The first frame, or those of a retry that led to another lease.
    if (pending->parts_seen_ != 0 && pending->lease_id_ != grant.lease_id()) {
      SendNack(pending->lease_id_, pending->generation_,
               "superseded by a retry");
    }
    pending->parts_.clear();
    pending->parts_.resize(grant.parts());
    pending->parts_seen_ = 0;
    pending->lease_id_ = grant.lease_id();
    pending->generation_ = grant.generation();
  }
  std::vector<UniqueFd>& part = pending->parts_[grant.part()];
  if (!part.empty()) return;  // a copy; closed
  part = std::move(frame.fds);
  if (part.empty()) return;
  if (++pending->parts_seen_ < grant.parts()) return;
  pending->complete_ = true;
  pending->wake_.Signal();
}

void FdChannel::FailPending(Pending* pending, absl::Status status) {
  pending->status_ = std::move(status);
  pending->wake_.Signal();
}

void FdChannel::Break(const absl::Status& why) {
  if (broken_.ok()) broken_ = why;
  for (Pending* const pending : waiting_) pending->wake_.Signal();
}

void FdChannel::Drain() {
  while (!leader_ && broken_.ok()) {
    // A deadline that has passed: take what is there. The lock is kept; the
    // read does not wait.
    absl::StatusOr<ServerFrameAndFds> frame =
        socket_.Read(absl::InfinitePast());
    if (frame.ok()) {
      Dispatch(*std::move(frame));
    } else if (absl::IsNotFound(frame.status())) {
      return;
    } else {
      Break(frame.status());
    }
  }
}

bool FdChannel::Broken() {
  const FrameSocket::State state = socket_.Look();
  MutexLock lock(&mu_);
  // Frames first: there can be a Goodbye before the end.
  if (state.readable) Drain();
  if (state.hung_up) {
    Break(absl::UnavailableError("the daemon closed the fd channel"));
  }
  return !broken_.ok();
}

bool FdChannel::Revoked(const std::string& lease_id) {
  MutexLock lock(&mu_);
  Drain();
  return revoked_.contains(lease_id);
}

absl::Status FdChannel::Ack(const std::string& lease_id, uint64_t generation) {
  v1::ClientFrame frame;
  frame.mutable_grant_ack()->set_lease_id(lease_id);
  frame.mutable_grant_ack()->set_generation(generation);
  return socket_.Send(frame);
}

void FdChannel::Nack(const std::string& lease_id, uint64_t generation,
                     const std::string& reason) {
  ForgetLease(lease_id);
  SendNack(lease_id, generation, reason);
}

void FdChannel::SendNack(const std::string& lease_id, uint64_t generation,
                         const std::string& reason) {
  v1::ClientFrame frame;
  frame.mutable_grant_nack()->set_lease_id(lease_id);
  frame.mutable_grant_nack()->set_generation(generation);
  frame.mutable_grant_nack()->set_reason(reason);
  // A broken channel ends the grant as well.
  socket_.Send(frame).IgnoreError();
}

void FdChannel::NoteHeld(const std::string& lease_id) {
  MutexLock lock(&mu_);
  held_.insert(lease_id);
}

void FdChannel::ForgetLease(const std::string& lease_id) {
  MutexLock lock(&mu_);
  held_.erase(lease_id);
  revoked_.erase(lease_id);
}

absl::StatusOr<v1::PresentResult> FdChannel::Present(
    const std::string& lease_id, uint64_t generation,
    const std::vector<int>& fds, absl::Duration timeout) {
  const size_t parts = (fds.size() + kMaxFdsPerFrame - 1) / kMaxFdsPerFrame;
  for (size_t part = 0; part < parts; ++part) {
    v1::ClientFrame frame;
    v1::Present* const present = frame.mutable_present();
    present->set_lease_id(lease_id);
    present->set_generation(generation);
    present->set_part(static_cast<uint32_t>(part));
    present->set_parts(static_cast<uint32_t>(parts));
    HP_RETURN_IF_ERROR(
        socket_.Send(frame, absl::MakeConstSpan(fds).subspan(
                                part * kMaxFdsPerFrame, kMaxFdsPerFrame)));
  }
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    HP_ASSIGN_OR_RETURN(ServerFrameAndFds frame, socket_.Read(deadline));
    if (frame.message.has_present_result() &&
        frame.message.present_result().lease_id() == lease_id) {
      return std::move(*frame.message.mutable_present_result());
    }
    MutexLock lock(&mu_);
    Dispatch(std::move(frame));
  }
}

}  // namespace hugepool::client
