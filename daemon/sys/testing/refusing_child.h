// A child process in which a system call is refused, as a seccomp profile of a
// container does.
#ifndef HUGEPOOL_DAEMON_SYS_TESTING_REFUSING_CHILD_H_
#define HUGEPOOL_DAEMON_SYS_TESTING_REFUSING_CHILD_H_

#include <cstdint>
#include <functional>
#include <optional>

namespace hugepool::sys::testing {

struct Refusal {
  long syscall_number;
  int error_number;
  // Only where this argument ...
  int argument = -1;
  // ... equals the value, or has one of the bits.
  std::optional<uint32_t> equals;
  std::optional<uint32_t> has_bit;
};

// Forks, refuses the call in the child and returns what `body` returns there
// (0 to 127); -1 where the child died or the filter could not be set. `body`
// must not use gtest's assertions.
int RunRefusing(const Refusal& refusal, const std::function<int()>& body);

}  // namespace hugepool::sys::testing

#endif  // HUGEPOOL_DAEMON_SYS_TESTING_REFUSING_CHILD_H_
