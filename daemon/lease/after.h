// What a method of LeaseManager still has to do once its mutex is released.
// Internal to daemon/lease.
#ifndef HUGEPOOL_DAEMON_LEASE_AFTER_H_
#define HUGEPOOL_DAEMON_LEASE_AFTER_H_

#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/lease/events.h"
#include "daemon/lease/lease_manager.h"

namespace hugepool {

struct LeaseManager::After {
  std::vector<News> news;
  std::set<const Pool*> wake;           // stewards that have work
  std::vector<LeaseId> cancel_waits;    // in the pools' queues
  std::vector<std::function<void()>> calls;
  std::optional<std::pair<LeaseId, absl::Time>> expiry;
  bool collect = false;  // what the index of parts has retired
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_AFTER_H_
