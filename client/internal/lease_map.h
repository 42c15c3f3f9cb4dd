// From the descriptors of a lease to its mapped segments.
#ifndef HUGEPOOL_CLIENT_INTERNAL_LEASE_MAP_H_
#define HUGEPOOL_CLIENT_INTERNAL_LEASE_MAP_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/internal/mapping.h"
#include "daemon/base/unique_fd.h"
#include "hugepool/v1/types.pb.h"

namespace hugepool::client {

struct MapOptions {
  bool map = true;
  // MADV_DONTFORK: children do not see the memory. Costs the sharing of page
  // tables with the daemon.
  bool dontfork = false;
};

// Checks that `fds` are the extents of `lease`, in order: their number, inodes
// and sizes. INTERNAL where they are not.
absl::Status CheckExtents(const v1::Lease& lease,
                          const std::vector<UniqueFd>& fds);

// Maps each segment of `lease` into one range. The descriptors stay the
// caller's. Errors as for MapPieces.
absl::StatusOr<std::vector<MappedRange>> MapLease(
    const v1::Lease& lease, const std::vector<UniqueFd>& fds, bool dontfork);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_LEASE_MAP_H_
