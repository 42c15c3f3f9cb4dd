// accept(2) for a thread that must neither spin nor stop when the process runs
// out of descriptors.
#ifndef HUGEPOOL_DAEMON_SERVICE_ACCEPTING_H_
#define HUGEPOOL_DAEMON_SERVICE_ACCEPTING_H_

#include <functional>

#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::service {

// One for each accepting thread. Not thread-safe.
//
// Keeps one descriptor in reserve. When there is no other (EMFILE, ENFILE), it
// is given up for a moment, to accept the connection and close it: its client
// sees the end at once and can try again, and the backlog does not keep the
// thread awake (T11).
class Accepting {
 public:
  enum class Next {
    kIdle,   // nobody waits: until the next event of the socket
    kAgain,  // a burst was taken, there may be more
    kPause,  // no descriptor could be had: try again after kPauseFor
  };
  static constexpr absl::Duration kPauseFor = absl::Milliseconds(100);

  Accepting();

  // Accepts some connections, non-blocking and CLOEXEC, and calls `take` with
  // each. The listener is to be watched edge-triggered.
  Next Burst(int listener, const std::function<void(UniqueFd)>& take);

  // How long a thread may wait for events after `next`, in milliseconds for
  // epoll_wait; -1: for ever.
  static int TimeoutAfter(Next next);

 private:
  Next OutOfDescriptors(int listener, int error_number);

  UniqueFd spare_;
  uint64_t turned_away_ = 0;
  absl::Time next_log_ = absl::InfinitePast();
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_ACCEPTING_H_
