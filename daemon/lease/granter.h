// Turns a booked lease into descriptors at the client: re-opens, owns, seals,
// sends. All system calls of a grant are here, and none is made under a lock.
#ifndef HUGEPOOL_DAEMON_LEASE_GRANTER_H_
#define HUGEPOOL_DAEMON_LEASE_GRANTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"
#include "daemon/extent/extent_files.h"
#include "daemon/lease/types.h"

namespace hugepool {

// One frame of a grant, as the fd channel sends it.
struct GrantFrame {
  std::string request_id;
  LeaseId lease;
  uint64_t generation = 0;
  uint32_t part = 0;
  uint32_t parts = 1;
  uint32_t first_extent = 0;
  std::vector<UniqueFd> fds;
};

// Sends to the client of a session. Implemented by the fd channel.
class GrantSender {
 public:
  virtual ~GrantSender() = default;
  // Never blocks. Takes the descriptors; they are closed here once sent, or on
  // failure. UNAVAILABLE: the session has no connection; RESOURCE_EXHAUSTED:
  // its queue is full, or the kernel refuses more descriptors in flight.
  virtual absl::Status SendGrant(SessionId session, GrantFrame frame) = 0;
  // Tells the holder of a lease that its memory will be taken from it so soon.
  // Never blocks; a client without a connection learns nothing.
  virtual void SendRevokeNotice(SessionId session, LeaseId lease,
                                absl::Duration within) = 0;
};

// Thread-safe for different leases; one lease is granted by one thread at a
// time.
class Granter {
 public:
  // SCM_RIGHTS carries at most 253 descriptors (SCM_MAX_FD).
  static constexpr uint32_t kMaxFdsPerFrame = 253;

  // `watch` may be null.
  Granter(ExtentFiles* files, GrantSender* sender, sys::HolderWatch* watch)
      : files_(files), sender_(sender), watch_(watch) {}

  // Opens every extent of the lease anew and sends the descriptors to
  // `session` in as many frames as it takes; returns their number. ABORTED: an
  // extent was not as the probe left it (somebody opened it): take others.
  absl::StatusOr<uint32_t> Grant(const Lease& lease, SessionId session,
                                 const std::string& request_id);

 private:
  absl::StatusOr<UniqueFd> OpenOne(const Lease& lease, SlotId slot);

  ExtentFiles* const files_;
  GrantSender* const sender_;
  sys::HolderWatch* const watch_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_GRANTER_H_
