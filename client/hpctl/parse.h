// The small languages of hpctl's options.
#ifndef HUGEPOOL_CLIENT_HPCTL_PARSE_H_
#define HUGEPOOL_CLIENT_HPCTL_PARSE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/internal/released_parts.h"
#include "daemon/base/units.h"
#include "hugepool/v1/types.pb.h"

namespace hugepool::hpctl {

// All of them return INVALID_ARGUMENT with the text and what to write instead.

// "0", "0,2", "0-3,5", "local" (client::LocalNode()). Ascending, without
// doubles.
absl::StatusOr<std::vector<NodeId>> ParseNodes(const std::string& text);

// "4G" or "4G@NODES". Zero is no size.
struct SizeAtNodes {
  Bytes size;
  std::vector<NodeId> nodes;  // empty: none were given
};
absl::StatusOr<SizeAtNodes> ParseSizeAtNodes(const std::string& text);

// "4M+2M": 2M from offset 4M on in segment 0; "1:4M+2M": in segment 1. The size
// is not 0.
absl::StatusOr<client::LeaseRange> ParseRange(const std::string& text);

// "1G" or "1G,2M": page sizes in order of preference.
absl::StatusOr<std::vector<PageSize>> ParsePageSizes(const std::string& text);

// "500ms", "5s", "2m", "1h30m"; a plain number is seconds. Not negative.
absl::StatusOr<absl::Duration> ParseWait(const std::string& text);

// "KEY=VALUE"; the value may be empty.
absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(
    const std::string& text);

// "session", "memory" or "named".
absl::StatusOr<v1::Lifetime> ParseLifetime(const std::string& text);

// "granted", "held", "orphaned" or "returning".
absl::StatusOr<v1::LeaseState> ParseLeaseState(const std::string& text);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_PARSE_H_
