// From errno to absl::Status, keeping which system call it was.
#ifndef HUGEPOOL_DAEMON_BASE_ERRNO_STATUS_H_
#define HUGEPOOL_DAEMON_BASE_ERRNO_STATUS_H_

#include <string_view>

#include "absl/status/status.h"

namespace hugepool {

// A status for a failed system call: "<what>: <strerror> (errno N)". `what`
// names the call and its arguments, e.g. "ftruncate(memfd, 2 MiB)". The code is
// absl::ErrnoToStatusCode's, except that ENOMEM, ENOSPC, EMFILE and ENFILE are
// RESOURCE_EXHAUSTED.
absl::Status ErrnoToStatus(int error_number, std::string_view what);

// The errno a status made by ErrnoToStatus carries; 0 where it has none.
int ErrnoOf(const absl::Status& status);

// `status` with `prefix` and ": " before its message; payloads stay.
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

}  // namespace hugepool

// Returns from the function with the status of `expr` unless it is ok.
#define HP_RETURN_IF_ERROR(expr)                              \
  do {                                                        \
    if (::absl::Status hp_status = (expr); !hp_status.ok()) { \
      return hp_status;                                       \
    }                                                         \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): `lhs` can be a declaration.
#define HP_STATUS_CONCAT_INNER(a, b) a##b
#define HP_STATUS_CONCAT(a, b) HP_STATUS_CONCAT_INNER(a, b)
// `HP_ASSIGN_OR_RETURN(auto x, F());`: x from a StatusOr, or return its status.
#define HP_ASSIGN_OR_RETURN(lhs, expr) \
  HP_ASSIGN_OR_RETURN_IMPL(HP_STATUS_CONCAT(hp_statusor_, __LINE__), lhs, expr)
#define HP_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // HUGEPOOL_DAEMON_BASE_ERRNO_STATUS_H_
