// Leases and the sessions they belong to, as plain data.
#ifndef HUGEPOOL_DAEMON_LEASE_TYPES_H_
#define HUGEPOOL_DAEMON_LEASE_TYPES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/strong_id.h"
#include "daemon/base/units.h"
#include "daemon/extent/ids.h"
#include "daemon/pool/request.h"

namespace hugepool {

using SessionId = StrongId<struct SessionIdTag, uint64_t>;

// Who is at the other end of a connection, as the kernel told it.
struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // for people only: never decides anything
  DomainId domain;
  bool admin = false;  // came through the admin socket
};

// Whether what `owner` has is shown to the caller: to admins, and in its domain.
inline bool MaySee(const Identity& caller, const Identity& owner) {
  return caller.admin || caller.domain == owner.domain;
}

enum class Lifetime {
  kSession = 1,  // ends with its session, after the resume grace
  kMemory = 2,   // lives as long as any descriptor or mapping of it
  kNamed = 3,    // lives until released or its time is up
};

// The numbers are those of hugepool.v1.LeaseState.
enum class LeasePhase {
  kGranted = 1,    // descriptors on their way, not acknowledged
  kHeld = 2,
  kOrphaned = 3,   // its session is gone and may be resumed
  kReturning = 4,  // ended, memory still held somewhere
};

struct AcquireSpec {
  std::string request_id;
  std::vector<SegmentRequest> segments;
  absl::Duration max_wait;
  Lifetime lifetime = Lifetime::kSession;
  std::string name;
  bool sealed = false;
  bool reopenable = false;
  bool is_private = false;
  std::map<std::string, std::string> labels;
  absl::Duration time_to_live = absl::InfiniteDuration();
};

struct Lease {
  LeaseId id;
  uint64_t generation = 1;
  LeasePhase phase = LeasePhase::kGranted;
  Lifetime lifetime = Lifetime::kSession;
  std::string name;
  std::string request_id;
  Identity owner;
  SessionId session;
  absl::Time created;  // wall clock
  absl::Time expires = absl::InfiniteFuture();  // wall clock
  std::vector<TakenSegment> segments;
  // Those whose memory is not back yet.
  std::vector<TakenExtent> extents;
  std::map<std::string, std::string> labels;
  bool sealed = false;
  bool reopenable = false;
  bool is_private = false;
  bool in_place = false;

  // What is charged for it.
  Bytes size() const {
    Bytes sum;
    for (const TakenExtent& e : extents) sum += e.size - e.gone;
    return sum;
  }
};

// Printable forms for the wire; opaque to clients.
std::string ToWire(LeaseId id);
std::string ToWire(ExtentId id);
// Invalid id where the text is no id of ours.
LeaseId LeaseIdFromWire(std::string_view text);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_TYPES_H_
