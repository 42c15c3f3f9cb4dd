#include "tests/harness/raw_client.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/internal/errors.h"
#include "client/internal/transport.h"
#include "daemon/base/errno_status.h"
#include "grpcpp/client_context.h"

namespace hugepool::testing {
namespace {

constexpr char kSessionKey[] = "hugepool-session-bin";

template <typename Stub>
absl::StatusOr<std::vector<v1::Lease>> AllPages(Stub* stub,
                                                const std::string& path) {
  std::vector<v1::Lease> leases;
  v1::ListLeasesRequest request;
  do {
    grpc::ClientContext context;
    client::SetDeadline(&context, absl::Now() + absl::Seconds(10));
    v1::ListLeasesResponse response;
    HP_RETURN_IF_ERROR(client::CallStatus(
        stub->ListLeases(&context, request, &response), path));
    leases.insert(leases.end(), response.leases().begin(),
                  response.leases().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return leases;
}

}  // namespace

RawCalls::RawCalls(const std::string& dir)
    : path_(dir + "/grpc.sock"),
      stub_(v1::HugePool::NewStub(client::OpenChannel(path_))) {}

void RawCalls::Prepare(grpc::ClientContext* context, const std::string& secret,
                       absl::Duration timeout) {
  if (!secret.empty()) context->AddMetadata(kSessionKey, secret);
  client::SetDeadline(context, absl::Now() + timeout);
}

absl::Status RawCalls::Finish(const grpc::Status& status) const {
  return status.ok() ? absl::OkStatus() : client::CallStatus(status, path_);
}

absl::StatusOr<v1::GetStatusResponse> RawCalls::GetStatus() {
  v1::GetStatusResponse response;
  HP_RETURN_IF_ERROR(Call(&v1::HugePool::Stub::GetStatus, "",
                          v1::GetStatusRequest(), &response,
                          absl::Seconds(10)));
  return response;
}

absl::StatusOr<std::vector<v1::Lease>> RawCalls::ListLeases() {
  return AllPages(stub_.get(), path_);
}

absl::StatusOr<std::vector<v1::Lease>> ListAllLeases(
    const std::string& admin_dir) {
  const std::string path = admin_dir + "/admin.sock";
  const auto stub = v1::HugePool::NewStub(client::OpenChannel(path));
  return AllPages(stub.get(), path);
}

absl::Status RevokeLease(const std::string& admin_dir,
                         const std::string& lease_id, bool kill) {
  const std::string path = admin_dir + "/admin.sock";
  const auto stub = v1::HugePoolAdmin::NewStub(client::OpenChannel(path));
  grpc::ClientContext context;
  client::SetDeadline(&context, absl::Now() + absl::Seconds(10));
  v1::RevokeLeaseRequest request;
  request.set_lease_id(lease_id);
  request.set_kill(kill);
  v1::RevokeLeaseResponse response;
  const grpc::Status status = stub->RevokeLease(&context, request, &response);
  return status.ok() ? absl::OkStatus() : client::CallStatus(status, path);
}

RawClient::RawClient(client::FrameSocket frames, const std::string& dir)
    : frames_(std::move(frames)), calls_(dir) {}

absl::StatusOr<std::unique_ptr<RawClient>> RawClient::Connect(
    const std::string& dir, uint32_t version,
    const std::string& resume_secret) {
  HP_ASSIGN_OR_RETURN(client::FrameSocket frames,
                      client::FrameSocket::Connect(dir + "/fd.sock"));
  std::unique_ptr<RawClient> c(new RawClient(std::move(frames), dir));
  v1::ClientFrame hello;
  hello.mutable_hello()->set_protocol_version(version);
  hello.mutable_hello()->set_client_name("test");
  hello.mutable_hello()->set_resume_secret(resume_secret);
  HP_RETURN_IF_ERROR(c->frames_->Send(hello));
  HP_ASSIGN_OR_RETURN(auto frame,
                      c->frames_->Read(absl::Now() + absl::Seconds(10)));
  if (frame.message.has_goodbye()) {
    return client::WithDetail(
        absl::FailedPreconditionError(frame.message.goodbye().text()),
        frame.message.goodbye().error());
  }
  if (!frame.message.has_welcome()) {
    return absl::InternalError("the first frame is no Welcome");
  }
  c->welcome_ = frame.message.welcome();
  return c;
}

absl::StatusOr<v1::Answer> RawClient::Ask(v1::Call call) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  v1::ClientFrame frame;
  call.set_call_id(++last_call_);
  *frame.mutable_call() = std::move(call);
  HP_RETURN_IF_ERROR(frames_->Send(frame));
  v1::Answer whole;
  while (true) {
    HP_ASSIGN_OR_RETURN(auto got, frames_->Read(deadline));
    if (got.message.has_goodbye()) {
      return absl::UnavailableError(got.message.goodbye().text());
    }
    if (got.message.has_grant()) {
      kept_.push_back(std::move(got));
      continue;
    }
    if (!got.message.has_answer() ||
        got.message.answer().call_id() != last_call_) {
      continue;
    }
    whole.MergeFrom(got.message.answer());
    if (!got.message.answer().more()) break;
  }
  HP_RETURN_IF_ERROR(client::FromAnswer(whole));
  return whole;
}

absl::StatusOr<client::ServerFrameAndFds> RawClient::NextFrame(
    absl::Time deadline) {
  if (kept_.empty()) return frames_->Read(deadline);
  client::ServerFrameAndFds frame = std::move(kept_.front());
  kept_.pop_front();
  return frame;
}

absl::Status RawClient::Acquire(const v1::AcquireRequest& request,
                                v1::AcquireResponse* response) {
  if (!over_fd_) {
    return calls_.Call(&v1::HugePool::Stub::Acquire, welcome_.session_secret(),
                       request, response);
  }
  v1::Call call;
  *call.mutable_acquire() = request;
  HP_ASSIGN_OR_RETURN(v1::Answer answer, Ask(std::move(call)));
  *response = std::move(*answer.mutable_acquire());
  return absl::OkStatus();
}

absl::Status RawClient::Attach(const v1::AttachRequest& request,
                               v1::AttachResponse* response) {
  if (!over_fd_) {
    return calls_.Call(&v1::HugePool::Stub::Attach, welcome_.session_secret(),
                       request, response);
  }
  v1::Call call;
  *call.mutable_attach() = request;
  HP_ASSIGN_OR_RETURN(v1::Answer answer, Ask(std::move(call)));
  *response = std::move(*answer.mutable_attach());
  return absl::OkStatus();
}

absl::Status RawClient::Release(const std::string& lease_id) {
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  return SendRelease(std::move(request));
}

absl::Status RawClient::ReleasePart(const std::string& lease_id,
                                    uint32_t segment, uint64_t offset,
                                    uint64_t size) {
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  v1::ReleaseRequest::Range* const range = request.add_ranges();
  range->set_segment(segment);
  range->set_offset(offset);
  range->set_size_bytes(size);
  return SendRelease(std::move(request));
}

absl::Status RawClient::SendRelease(v1::ReleaseRequest request) {
  if (over_fd_) {
    v1::Call call;
    *call.mutable_release() = std::move(request);
    return Ask(std::move(call)).status();
  }
  v1::ReleaseResponse response;
  return calls_.Call(&v1::HugePool::Stub::Release, welcome_.session_secret(),
                     request, &response);
}

absl::StatusOr<RawGrant> RawClient::Collect(const std::string& request_id,
                                            absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  RawGrant grant;
  uint32_t parts = 1;
  for (uint32_t seen = 0; seen < parts;) {
    HP_ASSIGN_OR_RETURN(auto frame, NextFrame(deadline));
    if (frame.message.has_goodbye()) {
      return absl::UnavailableError(frame.message.goodbye().text());
    }
    if (!frame.message.has_grant() ||
        frame.message.grant().request_id() != request_id) {
      continue;
    }
    if (frame.fds_lost) {
      return absl::ResourceExhaustedError("descriptors were lost");
    }
    parts = frame.message.grant().parts();
    grant.lease_id = frame.message.grant().lease_id();
    grant.generation = frame.message.grant().generation();
    for (UniqueFd& fd : frame.fds) grant.fds.push_back(std::move(fd));
    ++seen;
  }
  return grant;
}

absl::Status RawClient::Ack(const RawGrant& grant) {
  v1::ClientFrame frame;
  frame.mutable_grant_ack()->set_lease_id(grant.lease_id);
  frame.mutable_grant_ack()->set_generation(grant.generation);
  return frames_->Send(frame);
}

std::string RawClient::NewRequestId() {
  return absl::StrCat("raw-", getpid(), "-", next_request_++);
}

v1::AcquireRequest AcquireOf(uint64_t bytes, uint64_t page_size,
                             absl::Duration wait) {
  v1::AcquireRequest request;
  v1::Segment* const segment = request.add_segments();
  segment->set_size_bytes(bytes);
  if (page_size != 0) segment->add_page_sizes(page_size);
  const int64_t ms = absl::ToInt64Milliseconds(wait);
  if (ms > 0) {
    request.mutable_max_wait()->set_seconds(ms / 1000);
    request.mutable_max_wait()->set_nanos(static_cast<int32_t>(ms % 1000) *
                                          1000000);
  }
  return request;
}

std::string CodeAndReason(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), "/",
                      v1::ErrorReason_Name(client::ReasonOf(status)));
}

}  // namespace hugepool::testing
