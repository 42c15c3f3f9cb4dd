#include "daemon/lease/types.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/views.h"

namespace hugepool {

std::string ToWire(LeaseId id) {
  return absl::StrCat("lease-", absl::Hex(id.value(), absl::kZeroPad16));
}

std::string ToWire(ExtentId id) {
  return absl::StrCat("extent-", absl::Hex(id.value(), absl::kZeroPad16));
}

LeaseId LeaseIdFromWire(std::string_view text) {
  constexpr std::string_view kPrefix = "lease-";
  if (text.size() != kPrefix.size() + 16 || !text.starts_with(kPrefix)) {
    return LeaseId();
  }
  uint64_t value = 0;
  if (!absl::SimpleHexAtoi(AbslView(text.substr(kPrefix.size())), &value)) {
    return LeaseId();
  }
  // The library reads blanks and 0x as well; an id has one form only.
  const LeaseId id(value);
  return ToWire(id) == text ? id : LeaseId();
}

}  // namespace hugepool
