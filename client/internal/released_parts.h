// Which parts of a lease this process has released.
#ifndef HUGEPOOL_CLIENT_INTERNAL_RELEASED_PARTS_H_
#define HUGEPOOL_CLIENT_INTERNAL_RELEASED_PARTS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/base/units.h"
#include "hugepool/v1/types.pb.h"

namespace hugepool::client {

// `size` from `offset` on in a segment of a lease. In the order of the memory.
struct LeaseRange {
  uint32_t segment = 0;
  Bytes offset;
  Bytes size;
  friend constexpr auto operator<=>(const LeaseRange&,
                                    const LeaseRange&) = default;
};

// So many ranges that do not touch each other go into one call. A frame of the
// fd channel takes some thousands; with more the call goes over gRPC, whose
// messages end at 4 MiB.
inline constexpr size_t kMaxRanges = 65536;

// Not thread-safe. Knows nothing of what others released: the daemon does.
class ReleasedParts {
 public:
  struct Checked {
    // In order; those that touch are joined.
    std::vector<LeaseRange> ranges;
    // Exactly these were released before in a call that got no answer.
    bool repeated = false;
  };
  // Whether `ranges` of `lease` can be released. INVALID_ARGUMENT with
  // BAD_REQUEST: none or too many, or they are not of whole pages, not inside
  // their segments, or overlap. FAILED_PRECONDITION: released before.
  absl::StatusOr<Checked> Check(const v1::Lease& lease,
                                absl::Span<const LeaseRange> ranges) const;
  // What Check gave is released. `answered`: the daemon said so; else it may
  // have been told.
  void Add(const Checked& checked, bool answered);

 private:
  // By segment and beginning; how long each is. Those that touch are joined.
  std::map<uint32_t, std::map<Bytes, Bytes>> parts_;
  // The calls that got no answer. Nearly always empty.
  std::vector<std::vector<LeaseRange>> unanswered_;
};

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_RELEASED_PARTS_H_
