#include "daemon/base/units.h"

#include <array>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/views.h"

namespace hugepool {

std::string ToString(Bytes b) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB",
                                                        "GiB", "TiB"};
  uint64_t n = b.value();
  size_t unit = 0;
  while (n != 0 && n % 1024 == 0 && unit + 1 < kUnits.size()) {
    n /= 1024;
    ++unit;
  }
  return absl::StrCat(n, " ", kUnits[unit]);
}

std::ostream& operator<<(std::ostream& os, Bytes b) {
  return os << ToString(b);
}

absl::StatusOr<Bytes> ParseBytes(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", AbslView(text), "' is not a size: ", AbslView(why),
                     "; write a whole number with an optional unit, such as "
                     "4096, 512K, 2M or 1GiB (powers of 1024)"));
  };
  const std::string lower =
      absl::AsciiStrToLower(absl::StripAsciiWhitespace(AbslView(text)));
  const size_t digits = lower.find_first_not_of("0123456789");
  uint64_t number = 0;
  if (!absl::SimpleAtoi(lower.substr(0, digits), &number)) {
    return bad("it has no number that fits into 64 bits");
  }
  std::string_view unit = digits == std::string::npos
                              ? std::string_view()
                              : StdView(absl::StripAsciiWhitespace(
                                    absl::string_view(lower).substr(digits)));
  int shift = 0;
  if (!unit.empty() && unit != "b") {
    switch (unit[0]) {
      case 'k':
        shift = 10;
        break;
      case 'm':
        shift = 20;
        break;
      case 'g':
        shift = 30;
        break;
      case 't':
        shift = 40;
        break;
      default:
        return bad("its unit is unknown");
    }
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "b" && unit != "ib") {
      return bad("its unit is unknown");
    }
  }
  if (number > (std::numeric_limits<uint64_t>::max() >> shift)) {
    return bad("it is larger than 2^64 bytes");
  }
  return Bytes(number << shift);
}

std::ostream& operator<<(std::ostream& os, PageCount p) {
  return os << p.value() << (p.value() == 1 ? " page" : " pages");
}

std::string ToString(PageSize p) { return ToString(p.bytes()); }

std::ostream& operator<<(std::ostream& os, PageSize p) {
  return os << ToString(p);
}

std::ostream& operator<<(std::ostream& os, NodeId n) {
  return os << "node " << n.value();
}

}  // namespace hugepool
