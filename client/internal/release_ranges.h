// Giving up parts of a lease that goes on.
#ifndef HUGEPOOL_CLIENT_INTERNAL_RELEASE_RANGES_H_
#define HUGEPOOL_CLIENT_INTERNAL_RELEASE_RANGES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/internal/connection.h"
#include "client/internal/released_parts.h"

namespace hugepool::client {

// Releases `ranges` of `held`, all or none. Takes this process's access to them
// away before the daemon hears of it, and gives it back only where no daemon
// can have taken them. Errors as for ReleasedParts::Check,
// MappedRange::SetAccess and Connection::ReleaseParts.
absl::Status ReleaseRanges(Connection* connection, HeldLease* held,
                           absl::Span<const LeaseRange> ranges);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_RELEASE_RANGES_H_
