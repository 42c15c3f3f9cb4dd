#include "client/internal/session_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

// A restarting daemon is looked for this often; the grace is 10 s.
constexpr int kFirstPauseMs = 20;
constexpr int kLongestPauseMs = 500;

}  // namespace

SessionKeeper::SessionKeeper(std::function<bool()> reconnect)
    : reconnect_(std::move(reconnect)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

SessionKeeper::~SessionKeeper() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mu_);
    stop_ = true;
  }
  Wake();
  thread_.join();
}

absl::Status SessionKeeper::Watch(int fd) {
  if (!wake_.valid()) return ErrnoToStatus(EMFILE, "eventfd");
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    const int error_number = errno;
    return ErrnoToStatus(error_number, "dup(fd channel)");
  }
  {
    MutexLock lock(&mu_);
    next_ = std::move(copy);
    changed_ = true;
  }
  if (thread_.joinable()) {
    Wake();
    return absl::OkStatus();
  }
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  thread_ = std::thread([this] { Loop(); });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return absl::OkStatus();
}

void SessionKeeper::Wake() {
  const uint64_t one = 1;
  // Fails only where it is full of wake-ups already.
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
}

void SessionKeeper::Loop() {
  UniqueFd socket;
  int pause_ms = 0;  // 0: nothing has hung up
  for (;;) {
    {
      MutexLock lock(&mu_);
      if (stop_) return;
      if (std::exchange(changed_, false)) {
        socket = std::move(next_);
        pause_ms = 0;
      }
    }
    if (pause_ms == 0) {
      Sleep(socket.get(), -1);
      pollfd p = {.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
      if (!socket.valid() || poll(&p, 1, 0) <= 0) continue;
      socket.reset();
      pause_ms = kFirstPauseMs;
    } else {
      Sleep(-1, pause_ms);
      pause_ms = std::min(pause_ms * 2, kLongestPauseMs);
    }
    {
      MutexLock lock(&mu_);
      if (stop_) return;
      if (changed_) continue;
    }
    if (reconnect_()) pause_ms = 0;
  }
}

void SessionKeeper::Sleep(int socket, int timeout_ms) {
  // poll skips a negative descriptor.
  pollfd polled[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                     {.fd = socket, .events = POLLRDHUP, .revents = 0}};
  if (poll(polled, 2, timeout_ms) <= 0 || polled[0].revents == 0) return;
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(wake_.get(), &count, sizeof count);
}

}  // namespace hugepool::client
