// absl::StrCat and friends for std::string_view, which Debian's abseil does not
// take (see base/views.h). Internal.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_WORDS_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_WORDS_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "daemon/base/views.h"

namespace hugepool::server {

template <typename T>
decltype(auto) Part(const T& x) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return AbslView(x);
  } else {
    return (x);
  }
}

// All parts one after the other.
template <typename... T>
std::string Cat(const T&... parts) {
  return absl::StrCat(Part(parts)...);
}

template <typename... T>
void Append(std::string* to, const T&... parts) {
  absl::StrAppend(to, Part(parts)...);
}

// "a, b, c".
template <typename Words>
std::string JoinWords(const Words& words) {
  std::string joined;
  for (const auto& word : words) {
    Append(&joined, joined.empty() ? "" : ", ", word);
  }
  return joined;
}

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_WORDS_H_
