#include "daemon/service/testing/wire_client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace hugepool::service::testing {
namespace {

constexpr size_t kMaxFds = 253;

UniqueFd Connect(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof address) != 0) {
    return UniqueFd();
  }
  return fd;
}

}  // namespace

FdClient::FdClient(const std::string& dir) : socket_(Connect(dir + "/fd.sock")) {}

bool FdClient::SendBytes(std::string_view bytes, const std::vector<int>& fds) {
  iovec piece = {.iov_base = const_cast<char*>(bytes.data()),
                 .iov_len = bytes.size()};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket_.get(), &header, MSG_NOSIGNAL) >= 0;
}

std::optional<FdClient::Frame> FdClient::Read(absl::Duration timeout) {
  pollfd p = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&p, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) {
    return std::nullopt;
  }
  static thread_local char bytes[65536];
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  iovec piece = {.iov_base = bytes, .iov_len = sizeof bytes};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  Frame frame;
  frame.end = n <= 0;
  if (frame.end) return frame;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      frame.fds.emplace_back(fd);
    }
  }
  HP_CHECK(frame.message.ParseFromArray(bytes, static_cast<int>(n)),
           "a frame of the daemon");
  return frame;
}

v1::ErrorReason FdClient::ReadGoodbye() {
  while (true) {
    const auto frame = Read();
    if (!frame.has_value() || frame->end) break;
    if (frame->message.has_goodbye()) {
      return frame->message.goodbye().error().reason();
    }
  }
  return v1::ERROR_REASON_UNSPECIFIED;
}

bool FdClient::Greet(const std::string& resume_secret) {
  v1::ClientFrame hello;
  hello.mutable_hello()->set_protocol_version(1);
  hello.mutable_hello()->set_client_name("test");
  hello.mutable_hello()->set_resume_secret(resume_secret);
  if (!Send(hello)) return false;
  auto frame = Read();
  if (!frame.has_value() || !frame->message.has_welcome()) return false;
  welcome = frame->message.welcome();
  return true;
}

uint64_t FdClient::Call(v1::Call call) {
  call.set_call_id(++last_call_);
  v1::ClientFrame frame;
  *frame.mutable_call() = std::move(call);
  Send(frame);
  return last_call_;
}

v1::Answer FdClient::ReadAnswer(uint64_t call) {
  v1::Answer whole;
  while (true) {
    auto frame = Read();
    if (!frame.has_value() || frame->end) {
      whole.set_code(-1);
      return whole;
    }
    if (!frame->message.has_answer()) {
      others.push_back(*std::move(frame));
      continue;
    }
    const v1::Answer& answer = frame->message.answer();
    if (answer.call_id() != call) continue;
    whole.MergeFrom(answer);
    if (!answer.more()) return whole;
  }
}

void FdClient::Ack(const v1::Lease& lease) {
  v1::ClientFrame frame;
  frame.mutable_grant_ack()->set_lease_id(lease.lease_id());
  frame.mutable_grant_ack()->set_generation(lease.generation());
  Send(frame);
}

void FdClient::Nack(const v1::Lease& lease) {
  v1::ClientFrame frame;
  frame.mutable_grant_nack()->set_lease_id(lease.lease_id());
  frame.mutable_grant_nack()->set_generation(lease.generation());
  frame.mutable_grant_nack()->set_reason("test");
  Send(frame);
}

std::shared_ptr<grpc::Channel> Dial(const std::string& dir, const char* name) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(absl::StrCat("unix:", dir, "/", name),
                                   grpc::InsecureChannelCredentials(), args);
}

Client::Client(const std::string& dir)
    : fds(dir), channel(Dial(dir)), stub(v1::HugePool::NewStub(channel)) {
  HP_CHECK(fds.Greet(), "a Welcome");
}

v1::AcquireRequest Client::Request(uint64_t pages, absl::Duration wait) {
  v1::AcquireRequest request;
  request.add_segments()->set_size_bytes(pages << 21);
  request.mutable_max_wait()->set_seconds(absl::ToInt64Seconds(wait));
  return request;
}

std::string Client::NextRequestId() {
  return absl::StrCat("r", ++next_request_);
}

void Client::Prepare(grpc::ClientContext* context) const {
  context->AddMetadata("hugepool-session-bin", fds.welcome.session_secret());
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(60));
}

grpc::Status Client::Acquire(v1::AcquireRequest request, v1::Lease* lease) {
  if (request.request_id().empty()) request.set_request_id(NextRequestId());
  grpc::ClientContext context;
  Prepare(&context);
  v1::AcquireResponse response;
  const grpc::Status status = stub->Acquire(&context, request, &response);
  *lease = response.lease();
  return status;
}

grpc::Status Client::Release(const std::string& lease_id) {
  grpc::ClientContext context;
  Prepare(&context);
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  v1::ReleaseResponse response;
  return stub->Release(&context, request, &response);
}

v1::ErrorReason ReasonOf(const grpc::Status& status) {
  v1::ErrorDetail detail;
  if (status.error_details().empty() ||
      !detail.ParseFromString(status.error_details())) {
    return v1::ERROR_REASON_UNSPECIFIED;
  }
  return detail.reason();
}

}  // namespace hugepool::service::testing
