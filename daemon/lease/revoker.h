// Takes leases from their holders by order of an operator, in both ways there are:
// the memory is taken away, or those who have it are ended.
#ifndef HUGEPOOL_DAEMON_LEASE_REVOKER_H_
#define HUGEPOOL_DAEMON_LEASE_REVOKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/base/mutex.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/sys/holders.h"

namespace hugepool {

// Thread-safe. Looks into /proc and kills on an executor of its own, which may be
// kept busy by that.
class Revoker {
 public:
  struct Deps {
    LeaseManager* manager;
    GrantSender* sender;
    sys::Holders* holders;
    Executor* executor;
    const Clock* clock;
  };
  struct Order {
    LeaseId lease;
    bool kill = false;
    absl::Duration notice;
  };
  struct Outcome {
    Bytes bytes;  // that the lease had when it was ordered
    uint32_t killed = 0;
  };
  using Done = std::function<void(absl::StatusOr<Outcome>)>;

  explicit Revoker(const Deps& deps) : deps_(deps) {}

  // `done` is called once, on any thread, when all of the memory is back, or with
  // why that is not to be had. LEASE_GONE and FAILED_PRECONDITION as of
  // LeaseManager::Revoke(), with nothing changed. With `kill` also
  // FAILED_PRECONDITION after five seconds, naming who still has it: the lease has
  // ended then, and its memory comes back when they let go.
  void Revoke(const Order& order, Done done) HP_EXCLUDES(mu_);

  // Answers everybody with UNAVAILABLE, and from then on. What was begun is not
  // undone. To be called before the executor stops.
  void Stop() HP_EXCLUDES(mu_);

 private:
  // An order to kill that is being carried out; on the executor only.
  struct Hunt {
    uint64_t number;
    LeaseId lease;
    Bytes bytes;
    absl::Time until;
    std::set<pid_t> killed;
    std::string refused;  // the last process that could not be ended, and why
  };

  // nullopt: stopped, and `done` was told.
  std::optional<uint64_t> Note(Done done) HP_EXCLUDES(mu_);
  void Tell(uint64_t number, absl::StatusOr<Outcome> outcome)
      HP_EXCLUDES(mu_);
  void StartHunt(uint64_t number, const Order& order);
  void EndAndHunt(Hunt hunt);
  void HuntOn(Hunt hunt);
  absl::Status StillHeld(const Hunt& hunt,
                         const sys::Holders::Found& found) const;

  const Deps deps_;
  Mutex mu_;
  bool stopped_ HP_GUARDED_BY(mu_) = false;
  uint64_t next_ HP_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, Done> waiting_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_REVOKER_H_
