// Closes descriptors that may block whoever closes them.
#ifndef HUGEPOOL_DAEMON_SERVICE_REAPER_H_
#define HUGEPOOL_DAEMON_SERVICE_REAPER_H_

#include <deque>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::service {

// Thread-safe. One thread of its own.
//
// A descriptor that a client sent can be anything: a socket with SO_LINGER
// blocks its last close for as long as its owner likes. The same holds for a
// socket in whose queue such descriptors lie.
class Reaper {
 public:
  Reaper();
  // Gives the thread a second to finish; one that is stuck is left behind,
  // since it touches nothing but what it shares.
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  void Close(UniqueFd fd);
  void Close(std::vector<UniqueFd> fds);

 private:
  struct Shared {
    Mutex mu;
    CondVar wake;
    CondVar ended_wake;
    std::deque<UniqueFd> fds HP_GUARDED_BY(mu);
    bool stop HP_GUARDED_BY(mu) = false;
    bool ended HP_GUARDED_BY(mu) = false;
  };
  static void Run(Shared* shared);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_REAPER_H_
