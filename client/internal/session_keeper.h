// Notices that the daemon went away, while the program makes no calls.
#ifndef HUGEPOOL_CLIENT_INTERNAL_SESSION_KEEPER_H_
#define HUGEPOOL_CLIENT_INTERNAL_SESSION_KEEPER_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::client {

// A program can hold a lease for days without calling the library. If the
// daemon is restarted in that time, the lease must be taken up again within
// its resume grace. A thread sleeps in poll(2) until the fd channel hangs up,
// and calls `reconnect` then. It is off the path of every call and reads no
// frames.
class SessionKeeper {
 public:
  // `reconnect` is called by the thread after the channel hung up, and again
  // after a pause for as long as it returns false.
  explicit SessionKeeper(std::function<bool()> reconnect);
  // Ends the thread; waits for a `reconnect` under way. Not in a forked child,
  // where the thread does not exist.
  ~SessionKeeper();
  SessionKeeper(const SessionKeeper&) = delete;
  SessionKeeper& operator=(const SessionKeeper&) = delete;

  // From now on it is this socket that is watched (a duplicate, so that `fd`
  // may be closed). The first call starts the thread. One call at a time.
  absl::Status Watch(int fd);

 private:
  void Loop();
  // Waits for the socket to hang up, a new one, or the end.
  void Sleep(int socket, int timeout_ms);
  void Wake();

  const std::function<bool()> reconnect_;
  UniqueFd wake_;
  Mutex mu_;
  UniqueFd next_ HP_GUARDED_BY(mu_);  // to be watched; taken by the thread
  bool changed_ HP_GUARDED_BY(mu_) = false;
  bool stop_ HP_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_SESSION_KEEPER_H_
