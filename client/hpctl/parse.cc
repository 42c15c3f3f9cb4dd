#include "client/hpctl/parse.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/internal/nearest_memory.h"
#include "daemon/base/errno_status.h"

namespace hugepool::hpctl {
namespace {

// More than any kernel has (CONFIG_NODES_SHIFT is at most 10).
constexpr uint32_t kMaxNode = 1023;

absl::Status Bad(const std::string& text, const std::string& write) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "': ", write));
}

absl::Status BadNodes(const std::string& text) {
  return Bad(text, "write NUMA nodes as 0 or 0,2-3 or local");
}

absl::Status AddNodeRange(const std::string& text, const std::string& part,
                          std::vector<NodeId>* nodes) {
  if (part == "local") {
    nodes->push_back(client::LocalNode());
    return absl::OkStatus();
  }
  const std::vector<std::string> ends = absl::StrSplit(part, '-');
  uint32_t first = 0;
  uint32_t last = 0;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
      !absl::SimpleAtoi(ends.back(), &last) || last < first ||
      last > kMaxNode) {
    return BadNodes(text);
  }
  for (uint32_t n = first; n <= last; ++n) nodes->push_back(NodeId(n));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<NodeId>> ParseNodes(const std::string& text) {
  std::vector<NodeId> nodes;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    HP_RETURN_IF_ERROR(AddNodeRange(text, part, &nodes));
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

absl::StatusOr<SizeAtNodes> ParseSizeAtNodes(const std::string& text) {
  SizeAtNodes out;
  const size_t at = text.find('@');
  HP_ASSIGN_OR_RETURN(out.size, ParseBytes(text.substr(0, at)));
  if (out.size == Bytes(0)) return Bad(text, "a size of 0 leases nothing");
  if (at != std::string::npos) {
    HP_ASSIGN_OR_RETURN(out.nodes, ParseNodes(text.substr(at + 1)));
  }
  return out;
}

absl::StatusOr<client::LeaseRange> ParseRange(const std::string& text) {
  client::LeaseRange range;
  const size_t colon = text.find(':');
  const std::string rest =
      colon == std::string::npos ? text : text.substr(colon + 1);
  const size_t plus = rest.find('+');
  if (plus == std::string::npos ||
      (colon != std::string::npos &&
       !absl::SimpleAtoi(text.substr(0, colon), &range.segment))) {
    return Bad(text, "write a range as OFFSET+SIZE or SEGMENT:OFFSET+SIZE");
  }
  HP_ASSIGN_OR_RETURN(range.offset, ParseBytes(rest.substr(0, plus)));
  HP_ASSIGN_OR_RETURN(range.size, ParseBytes(rest.substr(plus + 1)));
  if (range.size == Bytes(0)) return Bad(text, "a range of 0 is no range");
  return range;
}

absl::StatusOr<std::vector<PageSize>> ParsePageSizes(const std::string& text) {
  std::vector<PageSize> sizes;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    HP_ASSIGN_OR_RETURN(const Bytes bytes, ParseBytes(part));
    const auto size = PageSize::FromBytes(bytes);
    if (!size.has_value()) {
      return Bad(part, "a page size is a power of two, such as 2M or 1G");
    }
    sizes.push_back(*size);
  }
  return sizes;
}

absl::StatusOr<absl::Duration> ParseWait(const std::string& text) {
  absl::Duration d;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    d = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &d)) {
    return Bad(text, "write a time as 500ms, 5s, 2m or 1h30m");
  }
  if (d < absl::ZeroDuration() || d > absl::Hours(24 * 365)) {
    return Bad(text, "a time is between 0 and a year");
  }
  return d;
}

absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(
    const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return Bad(text, "write a label as KEY=VALUE");
  }
  return std::make_pair(text.substr(0, at), text.substr(at + 1));
}

absl::StatusOr<v1::Lifetime> ParseLifetime(const std::string& text) {
  v1::Lifetime lifetime;
  if (v1::Lifetime_Parse("LIFETIME_" + absl::AsciiStrToUpper(text),
                         &lifetime) &&
      lifetime != v1::LIFETIME_UNSPECIFIED) {
    return lifetime;
  }
  return Bad(text, "a lifetime is session, memory or named");
}

absl::StatusOr<v1::LeaseState> ParseLeaseState(const std::string& text) {
  v1::LeaseState state;
  if (v1::LeaseState_Parse("LEASE_STATE_" + absl::AsciiStrToUpper(text),
                           &state) &&
      state != v1::LEASE_STATE_UNSPECIFIED) {
    return state;
  }
  return Bad(text, "a state is granted, held, orphaned or returning");
}

}  // namespace hugepool::hpctl
