#include "daemon/service/accepting.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/log.h"

namespace hugepool::service {
namespace {

// Connections taken in a row before the thread looks at its other work.
constexpr int kBurst = 64;
constexpr absl::Duration kBetweenLogs = absl::Seconds(10);

UniqueFd NewSpare() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

int Accept(int listener) {
  return accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

}  // namespace

Accepting::Accepting() : spare_(NewSpare()) {}

Accepting::Next Accepting::Burst(int listener,
                                 const std::function<void(UniqueFd)>& take) {
  if (!spare_.valid()) spare_ = NewSpare();
  for (int i = 0; i < kBurst; ++i) {
    UniqueFd connection(Accept(listener));
    if (connection.valid()) {
      take(std::move(connection));
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return Next::kIdle;
      case EINTR:
      case ECONNABORTED:  // the client left again
        continue;
      default: {
        const Next next = OutOfDescriptors(listener, errno);
        if (next != Next::kAgain) return next;
      }
    }
  }
  return Next::kAgain;
}

Accepting::Next Accepting::OutOfDescriptors(int listener, int error_number) {
  const absl::Time now = absl::Now();
  ++turned_away_;
  if (now >= next_log_) {
    next_log_ = now + kBetweenLogs;
    Log(LogLevel::kError,
        absl::StrCat("cannot accept connections: ", strerror(error_number),
                     "; turned away ", turned_away_,
                     " so far. Raise the limit of open files "
                     "(LimitNOFILE=), or find who opens so many connections"));
  }
  if (!spare_.valid()) return Next::kPause;
  spare_.reset();
  // Closed at once. Another thread can take the free number first; then the
  // client waits for the next try.
  UniqueFd unlucky(Accept(listener));
  const int second_error = unlucky.valid() ? 0 : errno;
  unlucky.reset();
  spare_ = NewSpare();
  if (second_error == EAGAIN) return Next::kIdle;
  return second_error == 0 ? Next::kAgain : Next::kPause;
}

int Accepting::TimeoutAfter(Next next) {
  switch (next) {
    case Next::kIdle:
      return -1;
    case Next::kAgain:
      return 0;
    case Next::kPause:
      return static_cast<int>(absl::ToInt64Milliseconds(kPauseFor));
  }
  return -1;
}

}  // namespace hugepool::service
