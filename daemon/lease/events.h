// What happens, told to whoever watches. No protobuf here: the service layer
// translates.
#ifndef HUGEPOOL_DAEMON_LEASE_EVENTS_H_
#define HUGEPOOL_DAEMON_LEASE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "daemon/base/units.h"
#include "daemon/extent/ids.h"
#include "daemon/pool/pool.h"

namespace hugepool {

struct LeaseNews {
  // The numbers are those of hugepool.v1.LeaseEvent.Kind.
  enum class Kind {
    kGranted = 1,
    kHeld = 2,
    kRolledBack = 3,
    kOrphaned = 4,
    kResumed = 5,
    kReleased = 6,
    kGone = 7,
    kRevoked = 8,
  };
  Kind kind = Kind::kGranted;
  LeaseId lease;
  DomainId domain;
  Bytes bytes;
};

struct WaitNews {
  // The numbers are those of hugepool.v1.WaitEvent.Kind.
  enum class Kind { kQueued = 1, kServed = 2, kExpired = 3, kCancelled = 4 };
  Kind kind = Kind::kQueued;
  std::string request_id;
  DomainId domain;
  Bytes wanted;
  absl::Duration waited;
};

struct PoolChanged {
  PoolSnapshot pool;
};

// How far a pool is on its way to being full.
struct FillProgress {
  NodeId node;
  PageSize page_size = k2M;
  Bytes clean;  // with what is there of the extent that is being built
  Bytes target;
};

struct Warning {
  std::string text;
};

using News =
    std::variant<LeaseNews, WaitNews, PoolChanged, FillProgress, Warning>;

// Thread-safe; must not block and must not call back.
class NewsSink {
 public:
  virtual ~NewsSink() = default;
  virtual void Publish(const News& news) = 0;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_EVENTS_H_
