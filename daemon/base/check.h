// For what must never be: books that contradict themselves. A daemon that goes
// on with wrong books lends a page twice, so it stops instead.
#ifndef HUGEPOOL_DAEMON_BASE_CHECK_H_
#define HUGEPOOL_DAEMON_BASE_CHECK_H_

#include <string_view>

namespace hugepool {

// Logs "file:line: check failed: condition: text" and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view text);

}  // namespace hugepool

// `text` (anything convertible to std::string_view) says what was expected.
// Never for input from outside, which is answered with a status.
#define HP_CHECK(condition, text)                                          \
  do {                                                                     \
    if (!(condition)) {                                                    \
      ::hugepool::CheckFailed(__FILE__, __LINE__, #condition, (text));     \
    }                                                                      \
  } while (false)

#endif  // HUGEPOOL_DAEMON_BASE_CHECK_H_
