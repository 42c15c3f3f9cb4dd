#include "client/testing/fake_fd_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hugepool::testing {
namespace {

constexpr size_t kMaxFds = 253;

void Check(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

bool SendFrame(int fd, const v1::ServerFrame& frame,
               absl::Span<const int> fds) {
  std::string bytes = frame.SerializeAsString();
  iovec piece = {.iov_base = bytes.data(), .iov_len = bytes.size()};
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
  return sendmsg(fd, &header, MSG_NOSIGNAL) >= 0;
}

}  // namespace

FakeFdServer::FakeFdServer(std::string path,
                           std::function<void(const std::string&)> on_nack,
                           std::function<std::vector<std::string>()> leases)
    : path_(std::move(path)),
      on_nack_(std::move(on_nack)),
      leases_(std::move(leases)) {}

FakeFdServer::~FakeFdServer() { Stop(); }

void FakeFdServer::Start() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  Check(path_.size() < sizeof address.sun_path, "path");
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  unlink(path_.c_str());
  Check(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
             sizeof address) == 0,
        "bind");
  Check(listen(listener_.get(), 64) == 0, "listen");
  stop_.reset(eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { Loop(); });
}

void FakeFdServer::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  Check(write(stop_.get(), &one, sizeof one) == sizeof one, "eventfd");
  thread_.join();
  listener_.reset();
  unlink(path_.c_str());
  MutexLock lock(&mu_);
  peers_.clear();
}

void FakeFdServer::ForgetSessions() {
  MutexLock lock(&mu_);
  secrets_.clear();
}

bool FakeFdServer::KnowsSession(const std::string& secret) const {
  MutexLock lock(&mu_);
  return secrets_.count(secret) != 0;
}

uint32_t FakeFdServer::SendGrant(const std::string& secret, v1::Grant grant,
                                 absl::Span<const int> fds) {
  MutexLock lock(&mu_);
  const auto it =
      std::find_if(peers_.rbegin(), peers_.rend(),
                   [&](const auto& peer) { return peer->secret == secret; });
  if (it == peers_.rend()) return 0;
  const size_t parts = (fds.size() + kMaxFds - 1) / kMaxFds;
  grant.set_parts(static_cast<uint32_t>(parts));
  for (size_t part = 0; part < parts; ++part) {
    const auto slice = fds.subspan(part * kMaxFds, kMaxFds);
    grant.set_part(static_cast<uint32_t>(part));
    grant.set_first_extent(static_cast<uint32_t>(part * kMaxFds));
    grant.set_extents(static_cast<uint32_t>(slice.size()));
    v1::ServerFrame frame;
    *frame.mutable_grant() = grant;
    if (!SendFrame((*it)->fd.get(), frame, slice)) return 0;
  }
  return static_cast<uint32_t>(parts);
}

void FakeFdServer::Broadcast(const v1::ServerFrame& frame) {
  MutexLock lock(&mu_);
  for (const auto& peer : peers_) SendFrame(peer->fd.get(), frame, {});
}

void FakeFdServer::set_adopt(bool adopt) {
  MutexLock lock(&mu_);
  adopt_ = adopt;
}

std::vector<std::string> FakeFdServer::acked() const {
  MutexLock lock(&mu_);
  return acked_;
}

std::vector<v1::GrantNack> FakeFdServer::nacked() const {
  MutexLock lock(&mu_);
  return nacked_;
}

size_t FakeFdServer::presented() const {
  MutexLock lock(&mu_);
  return presented_;
}

size_t FakeFdServer::calls() const {
  MutexLock lock(&mu_);
  return calls_;
}

std::vector<std::string> FakeFdServer::cancelled() const {
  MutexLock lock(&mu_);
  return cancelled_;
}

void FakeFdServer::WaitForCancelled(size_t n) const {
  MutexLock lock(&mu_);
  while (cancelled_.size() < n) answered_.Wait(&mu_);
}

void FakeFdServer::WaitForAnswers(size_t n) const {
  MutexLock lock(&mu_);
  while (acked_.size() + nacked_.size() < n) answered_.Wait(&mu_);
}

void FakeFdServer::WaitForResumed(size_t n) const {
  MutexLock lock(&mu_);
  while (resumed_ < n) answered_.Wait(&mu_);
}

void FakeFdServer::Loop() {
  for (;;) {
    std::vector<pollfd> polled = {
        {.fd = stop_.get(), .events = POLLIN, .revents = 0},
        {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    std::vector<Peer*> order;
    {
      MutexLock lock(&mu_);
      for (const auto& peer : peers_) {
        polled.push_back(
            {.fd = peer->fd.get(), .events = POLLIN, .revents = 0});
        order.push_back(peer.get());
      }
    }
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return;
    if (polled[1].revents != 0) Accept();
    for (size_t i = 0; i < order.size(); ++i) {
      if (polled[i + 2].revents == 0 || ReadOne(order[i])) continue;
      MutexLock lock(&mu_);
      std::erase_if(peers_, [&](const auto& p) { return p.get() == order[i]; });
    }
  }
}

void FakeFdServer::Accept() {
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return;
  auto peer = std::make_unique<Peer>();
  peer->fd = std::move(fd);
  MutexLock lock(&mu_);
  peers_.push_back(std::move(peer));
}

bool FakeFdServer::ReadOne(Peer* peer) {
  static thread_local char buffer[65536];
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  iovec piece = {.iov_base = buffer, .iov_len = sizeof buffer};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(peer->fd.get(), &header, MSG_CMSG_CLOEXEC);
  if (n <= 0) return false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      close(fd);
    }
  }
  v1::ClientFrame frame;
  if (!frame.ParseFromArray(buffer, static_cast<int>(n))) return false;
  if (frame.has_grant_nack()) on_nack_(frame.grant_nack().lease_id());
  if (frame.has_call()) {
    {
      // Before the answer, so that who has it finds the call counted.
      MutexLock lock(&mu_);
      ++calls_;
    }
    // Only this thread changes a peer's secret.
    auto answer = on_call_(peer->secret, frame.call());
    if (answer.has_value()) {
      v1::ServerFrame reply;
      answer->set_call_id(frame.call().call_id());
      *reply.mutable_answer() = *std::move(answer);
      SendAnswer(*peer, std::move(reply));
    }
  }
  MutexLock lock(&mu_);
  if (frame.has_hello()) {
    Welcome(peer, frame.hello());
  } else if (frame.has_grant_ack()) {
    acked_.push_back(frame.grant_ack().lease_id());
    answered_.SignalAll();
  } else if (frame.has_cancel_call()) {
    cancelled_.push_back(frame.cancel_call().request_id());
    answered_.SignalAll();
  } else if (frame.has_grant_nack()) {
    nacked_.push_back(frame.grant_nack());
    answered_.SignalAll();
  } else if (frame.has_present() &&
             frame.present().part() + 1 == frame.present().parts()) {
    ++presented_;
    v1::ServerFrame reply;
    reply.mutable_present_result()->set_lease_id(frame.present().lease_id());
    reply.mutable_present_result()->set_adopted(adopt_);
    SendFrame(peer->fd.get(), reply, {});
  }
  return true;
}

// In frames of at most 253 extents.
void FakeFdServer::SendAnswer(const Peer& peer, v1::ServerFrame reply) {
  v1::Answer* const answer = reply.mutable_answer();
  google::protobuf::RepeatedPtrField<v1::Extent> extents;
  if (answer->has_acquire()) {
    extents.Swap(answer->mutable_acquire()->mutable_lease()->mutable_extents());
  }
  for (size_t at = 0;;) {
    const size_t end = std::min(at + kMaxFds, size_t(extents.size()));
    for (; at < end; ++at) {
      *answer->mutable_acquire()->mutable_lease()->add_extents() =
          extents[static_cast<int>(at)];
    }
    answer->set_more(at < size_t(extents.size()));
    SendFrame(peer.fd.get(), reply, {});
    if (!answer->more()) return;
    answer->mutable_acquire()->Clear();
  }
}

void FakeFdServer::Welcome(Peer* peer, const v1::Hello& hello) {
  v1::ServerFrame frame;
  v1::Welcome* const welcome = frame.mutable_welcome();
  welcome->set_protocol_version(1);
  welcome->set_resumed(secrets_.count(hello.resume_secret()) != 0);
  if (welcome->resumed()) {
    peer->secret = hello.resume_secret();
    ++resumed_;
    answered_.SignalAll();
    for (std::string& id : leases_()) welcome->add_leases(std::move(id));
  } else {
    peer->secret =
        absl::StrCat("secret-", absl::Dec(next_secret_++, absl::kZeroPad9));
    secrets_.insert(peer->secret);
  }
  welcome->set_session_id("session-of-" + peer->secret);
  welcome->set_session_secret(peer->secret);
  welcome->set_max_fds_per_frame(kMaxFds);
  welcome->set_domain("test");
  welcome->set_calls(on_call_ != nullptr);
  SendFrame(peer->fd.get(), frame, {});
}

}  // namespace hugepool::testing
