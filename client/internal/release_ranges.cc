#include "client/internal/release_ranges.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/mapping.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

absl::Status SetAccess(HeldLease* held, const LeaseRange& range,
                       Access access) {
  if (range.segment >= held->segments.size()) return absl::OkStatus();
  return held->segments[range.segment].SetAccess(range.offset, range.size,
                                                 access);
}

// `why` the ranges are not released after all. Their borders are cut already,
// so that the kernel has no reason to refuse.
absl::Status Restore(HeldLease* held, absl::Span<const LeaseRange> ranges,
                     absl::Status why) {
  for (const LeaseRange& range : ranges) {
    const absl::Status status = SetAccess(held, range, Access::kReadWrite);
    if (status.ok()) continue;
    why = Annotate(why, absl::StrCat("some ranges could not be made accessible "
                                     "again (",
                                     status.message(), ")"));
  }
  return why;
}

}  // namespace

absl::Status ReleaseRanges(Connection* connection, HeldLease* held,
                           absl::Span<const LeaseRange> ranges) {
  HP_RETURN_IF_ERROR(connection->CheckProcess());
  HP_ASSIGN_OR_RETURN(const ReleasedParts::Checked checked,
                      held->released.Check(held->lease, ranges));
  const absl::Span<const LeaseRange> all(checked.ranges);
  // A repeated call's ranges are out of reach already.
  for (size_t i = 0; i < all.size() && !checked.repeated; ++i) {
    absl::Status status = SetAccess(held, all[i], Access::kNone);
    if (!status.ok()) return Restore(held, all.first(i + 1), std::move(status));
  }
  v1::ReleaseRequest request;
  request.set_lease_id(held->lease.lease_id());
  for (const LeaseRange& range : all) {
    auto* const out = request.add_ranges();
    out->set_segment(range.segment);
    out->set_offset(range.offset.value());
    out->set_size_bytes(range.size.value());
  }
  Connection::Tries tries;
  tries.unsure = checked.repeated;
  const auto released = connection->ReleaseParts(std::move(request), &tries);
  if (released.ok() || tries.unsure) {
    held->released.Add(checked, released.ok());
  } else {
    return Restore(held, all, released.status());
  }
  if (released.ok()) return absl::OkStatus();
  return Annotate(released.status(),
                  "whether the daemon took the ranges is not known, so they "
                  "stay inaccessible; the same call can be made again");
}

}  // namespace hugepool::client
