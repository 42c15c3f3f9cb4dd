#include "daemon/service/acceptor.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/views.h"
#include "grpcpp/server_posix.h"

namespace hugepool::service {

Caller CallerOf(const Peer& peer, const ListenerSpec& spec, Domains* domains,
                uid_t daemon_uid) {
  Caller caller;
  caller.who.uid = peer.uid;
  caller.who.gid = peer.gid;
  caller.who.pid = peer.pid;
  caller.denied = CheckAccess(spec.access, peer, daemon_uid, spec.dir);
  // A stranger makes no domain.
  if (!caller.denied.ok()) return caller;
  caller.who.admin = spec.admin;
  caller.who.domain = domains->Find(
      spec.domain.empty() ? absl::StrCat("uid:", peer.uid) : spec.domain);
  return caller;
}

absl::Status Acceptor::Start(grpc::Server* server) {
  server_ = server;
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !stop_.valid()) {
    return ErrnoToStatus(errno, "epoll_create1/eventfd (acceptor)");
  }
  epoll_event event = {.events = EPOLLIN, .data = {.fd = -1}};
  int rc = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event);
  for (const Socket& s : sockets_) {
    event = {.events = EPOLLIN | EPOLLET, .data = {.fd = s.fd}};
    if (rc == 0) rc = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, s.fd, &event);
  }
  if (rc != 0) return ErrnoToStatus(errno, "epoll_ctl (acceptor)");
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "hp-accept");
  return absl::OkStatus();
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) < 0) {
    Log(LogLevel::kError, "eventfd write (acceptor) failed");
  }
  thread_.join();
}

void Acceptor::Run() {
  Accepting::Next next = Accepting::Next::kAgain;
  while (true) {
    epoll_event events[8];
    const int n = epoll_wait(epoll_.get(), events, std::size(events),
                             Accepting::TimeoutAfter(next));
    for (int i = 0; i < n; ++i) {
      if (events[i].data.fd == -1) return;
    }
    // There are few sockets: asking all costs nothing and forgets none.
    next = Accepting::Next::kIdle;
    for (const Socket& s : sockets_) {
      next = std::max(next, accepting_.Burst(s.fd, [&](UniqueFd connection) {
        Take(std::move(connection), s.spec);
      }));
    }
  }
}

void Acceptor::Take(UniqueFd connection, const ListenerSpec& spec) {
  const auto peer = PeerOf(connection.get());
  if (!peer.ok()) {
    Log(LogLevel::kWarning, StdView(peer.status().message()));
    return;
  }
  RefuseDescriptors(connection.get());
  if (!identities_->Set(connection.get(),
                        CallerOf(*peer, spec, domains_, daemon_uid_))) {
    Log(LogLevel::kError, "a connection beyond the millionth is closed");
    return;
  }
  // gRPC owns the descriptor from here on.
  grpc::AddInsecureChannelFromFd(server_, connection.release());
}

}  // namespace hugepool::service
