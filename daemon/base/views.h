// std::string_view and absl::string_view are two types here: Debian's abseil
// keeps its own, and neither converts into the other.
//
// Interfaces of hugepool take std::string_view. At a call of abseil's:
// `absl::StrCat("no such name: ", AbslView(name))`.
#ifndef HUGEPOOL_DAEMON_BASE_VIEWS_H_
#define HUGEPOOL_DAEMON_BASE_VIEWS_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace hugepool {

// The same characters, owned by whoever owned them before.
inline absl::string_view AbslView(std::string_view s) {
  return absl::string_view(s.data(), s.size());
}
inline std::string_view StdView(absl::string_view s) {
  return std::string_view(s.data(), s.size());
}

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_VIEWS_H_
