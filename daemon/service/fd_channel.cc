// The thread: accepting, reading, deadlines, ends. fd_channel_frames.cc has what
// the frames mean.
#include "daemon/service/fd_channel.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/refusal.h"
#include "daemon/base/views.h"

namespace hugepool::service {
namespace {

// Frames of one client that are read before it is the others' turn.
constexpr int kFramesInARow = 16;
// Turns that the frames of a dead process get: its last acknowledgements count.
constexpr int kLastTurns = 16;
// Processes watched beyond the end of their connections.
constexpr size_t kMaxOrphans = 4096;

absl::Time Now() { return Clock::Real()->Now(); }

bool ProcessIsDead(int pidfd) {
  if (pidfd < 0) return false;
  pollfd p = {.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, 0) > 0;
}

}  // namespace

FdChannel::FdChannel(const Options& options, Domains* domains)
    : options_(options), domains_(domains) {}

absl::Status FdChannel::Watch(int fd, Kind kind, uint64_t number,
                              uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = Data(kind, number);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoToStatus(errno, "epoll_ctl (fd channel)");
  }
  return absl::OkStatus();
}

absl::Status FdChannel::Start(LeaseManager* manager, ClientCalls* calls) {
  manager_ = manager;
  calls_ = calls;
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) {
    return ErrnoToStatus(errno, "epoll_create1/eventfd (fd channel)");
  }
  HP_RETURN_IF_ERROR(Watch(wake_.get(), Kind::kWake, 0, EPOLLIN));
  for (const ListeningSocket& l : listeners_) {
    HP_RETURN_IF_ERROR(Watch(l.fd, Kind::kListener, 0, EPOLLIN | EPOLLET));
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "hp-fd");
  return absl::OkStatus();
}

void FdChannel::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) {
    Log(LogLevel::kError, "eventfd write (fd channel) failed");
  }
  thread_.join();
}

void FdChannel::Run() {
  while (true) {
    epoll_event events[64];
    const int n =
        epoll_wait(epoll_.get(), events, std::size(events), Timeout());
    bool accept = accept_next_ != Accepting::Next::kIdle;
    for (int i = 0; i < n; ++i) {
      const auto kind = static_cast<Kind>(events[i].data.u64 & 7);
      if (kind == Kind::kWake) {
        StopAll();
        return;
      }
      if (kind == Kind::kListener) {
        accept = true;
      } else {
        Handle(kind, events[i].data.u64 >> 3, events[i].events);
      }
    }
    if (accept) AcceptAll();
    Expire();
  }
}

void FdChannel::Handle(Kind kind, uint64_t number, uint32_t events) {
  if (kind == Kind::kOrphan) return ProcessDied(number);
  auto it = peers_.find(number);
  if (it == peers_.end()) return;  // ended by an earlier event of this batch
  Peer& peer = it->second;
  if (kind == Kind::kProcess) {
    // A grandchild can keep the socket open; the session was the process's.
    for (int i = 0; i < kLastTurns; ++i) {
      if (!ReadSome(peer)) return;
    }
    return End(number, /*process_dead=*/true);
  }
  if ((events & EPOLLOUT) != 0) peer.connection->Writable();
  if ((events & ~uint32_t{EPOLLOUT}) != 0) ReadSome(peer);
}

void FdChannel::AcceptAll() {
  accept_next_ = Accepting::Next::kIdle;
  for (const ListeningSocket& l : listeners_) {
    accept_next_ =
        std::max(accept_next_, accepting_.Burst(l.fd, [&](UniqueFd socket) {
          Take(std::move(socket), l.spec);
        }));
  }
}

int FdChannel::Timeout() const {
  int timeout = Accepting::TimeoutAfter(accept_next_);
  if (!deadlines_.empty()) {
    const absl::Duration left =
        std::max(deadlines_.begin()->first - Now(), absl::ZeroDuration());
    // Rounded up: waking early would only mean looking twice.
    const auto ms =
        static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1,
                                           1 << 30));
    timeout = timeout < 0 ? ms : std::min(timeout, ms);
  }
  return timeout;
}

void FdChannel::Expire() {
  const absl::Time now = Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const uint64_t number = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    if (auto orphan = orphans_.find(number); orphan != orphans_.end()) {
      orphans_.erase(orphan);
      continue;
    }
    auto it = peers_.find(number);
    if (it == peers_.end() || it->second.deadline > now) continue;
    if (it->second.phase == Phase::kGreeting) {
      SayGoodbye(it->second,
                 Refuse(RefusalReason::kBadFrame,
                        absl::StrCat("no Hello came within ",
                                     absl::FormatDuration(
                                         options_.hello_within)),
                        "say Hello first"));
    } else {
      End(number, /*process_dead=*/false);
    }
  }
}

void FdChannel::Take(UniqueFd socket, const ListenerSpec& spec) {
  const auto facts = PeerOf(socket.get());
  if (!facts.ok()) {
    Log(LogLevel::kWarning, StdView(facts.status().message()));
    return;
  }
  RefuseDescriptors(socket.get());
  const uint64_t number = next_number_++;
  Peer& peer = peers_[number];
  peer.number = number;
  peer.caller = CallerOf(*facts, spec, domains_, options_.daemon_uid);
  peer.pidfd = PidfdOf(socket.get(), facts->pid);
  peer.deadline = Now() + options_.hello_within;
  peer.connection = std::make_shared<FdConnection>(
      std::move(socket), epoll_.get(), Data(Kind::kSocket, number),
      options_.queue, &reaper_, [this](const OutFrame& lost) {
        manager_
            ->Refuse(lost.session, lost.lease, lost.generation,
                     "the kernel did not take its descriptors")
            .IgnoreError();
      });
  absl::Status status = Watch(peer.connection->fd(), Kind::kSocket, number,
                              FdConnection::InputEvents());
  if (status.ok() && peer.pidfd.valid()) {
    status = Watch(peer.pidfd.get(), Kind::kProcess, number, EPOLLIN);
  }
  if (!status.ok()) {
    Log(LogLevel::kWarning, StdView(status.message()));
    return End(number, /*process_dead=*/false);
  }
  deadlines_.emplace(peer.deadline, number);
  if (!peer.caller.denied.ok()) SayGoodbye(peer, peer.caller.denied);
}

bool FdChannel::ReadSome(Peer& peer) {
  for (int i = 0; i < kFramesInARow; ++i) {
    FrameReader::Frame frame = reader_.Read(peer.connection->fd());
    const bool with_fds = !frame.fds.empty();
    if (with_fds) reaper_.Close(std::move(frame.fds));
    if (frame.result == FrameReader::Result::kNone) return true;
    if (frame.result == FrameReader::Result::kEnd) {
      End(peer.number, /*process_dead=*/false);
      return false;
    }
    if (peer.phase == Phase::kLeaving) continue;
    v1::ClientFrame message;
    if (frame.result == FrameReader::Result::kTooLong ||
        !message.ParseFromArray(frame.bytes.data(),
                                static_cast<int>(frame.bytes.size()))) {
      SayGoodbye(peer,
                 Refuse(RefusalReason::kBadFrame,
                        absl::StrCat("a frame of ", frame.bytes.size(),
                                     " bytes or more is none of this protocol"),
                        "use the client library of this daemon's version"));
    } else if (with_fds && !message.has_present()) {
      SayGoodbye(peer, Refuse(RefusalReason::kBadFrame,
                              "descriptors came where none belong",
                              "send them with Present only"));
    } else {
      Dispatch(peer, message);
    }
  }
  return true;
}

// The session of the peer has no connection any more.
void FdChannel::EndSession(Peer& peer, bool process_dead) {
  if (!peer.session.valid()) return;
  const SessionId session = std::exchange(peer.session, SessionId());
  {
    MutexLock lock(&mu_);
    auto it = sessions_.find(session);
    if (it != sessions_.end() && it->second == peer.connection) {
      sessions_.erase(it);
    }
  }
  process_dead = process_dead || ProcessIsDead(peer.pidfd.get());
  manager_->CloseSession(session, peer.epoch, process_dead);
  if (process_dead || !peer.pidfd.valid() || orphans_.size() >= kMaxOrphans) {
    return;
  }
  // A dying process closes its files before it counts as dead.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.pidfd.get(), nullptr);
  const uint64_t number = next_number_++;
  if (!Watch(peer.pidfd.get(), Kind::kOrphan, number, EPOLLIN).ok()) return;
  const absl::Time until = Now() + options_.watch_process_for;
  orphans_[number] = {std::move(peer.pidfd), session, peer.epoch, until};
  deadlines_.emplace(until, number);
}

void FdChannel::ProcessDied(uint64_t number) {
  auto it = orphans_.find(number);
  if (it == orphans_.end()) return;
  const Orphan orphan = std::move(it->second);
  orphans_.erase(it);
  // No effect where the session was taken up again: the epoch tells.
  manager_->CloseSession(orphan.session, orphan.epoch, /*process_dead=*/true);
}

void FdChannel::End(uint64_t number, bool process_dead) {
  auto node = peers_.extract(number);
  if (node.empty()) return;
  Peer& peer = node.mapped();
  const int fd = peer.connection->fd();
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  EndSession(peer, process_dead);
  if (peer.pidfd.valid()) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.pidfd.get(), nullptr);
  }
  peer.connection->Close();
  // Unread frames at the close would reach the client as ECONNRESET, before
  // its Goodbye. After SHUT_RD no new ones come.
  (void)shutdown(fd, SHUT_RD);
  while (true) {
    FrameReader::Frame frame = reader_.Read(fd);
    reaper_.Close(std::move(frame.fds));
    if (frame.result == FrameReader::Result::kNone ||
        frame.result == FrameReader::Result::kEnd) {
      break;
    }
  }
  (void)shutdown(fd, SHUT_RDWR);
}

void FdChannel::StopAll() {
  const absl::Status why =
      Refuse(RefusalReason::kDraining, "the daemon is stopping",
             "connect again when it has been restarted");
  while (!peers_.empty()) {
    Peer& peer = peers_.begin()->second;
    if (peer.phase != Phase::kLeaving) SayGoodbye(peer, why);
    End(peer.number, /*process_dead=*/false);
  }
  orphans_.clear();
  MutexLock lock(&mu_);
  sessions_.clear();
}

}  // namespace hugepool::service
