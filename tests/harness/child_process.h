// A child process with pipes to its standard input and output.
#ifndef HUGEPOOL_TESTS_HARNESS_CHILD_PROCESS_H_
#define HUGEPOOL_TESTS_HARNESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::testing {

// As what, and with which limits, a child runs (see launch.cc).
struct RunAs {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  std::string caps;  // e.g. "chown,ipc_lock": what is kept of root's
  uint64_t nofile = 0;
  std::vector<std::string> cgroups;  // directories to join
};

// Killed and waited for at the end of its life. Not thread-safe; to be started
// by a thread that outlives it.
class ChildProcess {
 public:
  // `argv[0]` is the program's path. Standard error goes to `stderr_path`, or
  // to the test's own where that is empty.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& argv, const RunAs& as,
      const std::string& stderr_path = "");
  // As the test's own user in a session of its own, and not killed with this
  // object or the test: it has to end by itself when its input does.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> StartDetached(
      const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal_number);
  // What waitpid says, once the child has ended; nullopt after `timeout`.
  std::optional<int> Wait(absl::Duration timeout);
  // SIGKILL, and waits.
  void Kill();

  bool WriteLine(const std::string& line);
  // A line of its output without the end; nullopt at the end of the output or
  // after `timeout`.
  std::optional<std::string> ReadLine(absl::Duration timeout);
  // All it writes until the end of its output, or `timeout`.
  std::string ReadAll(absl::Duration timeout);

 private:
  ChildProcess() = default;
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(
      std::vector<std::string> words, short flags,
      const std::string& stderr_path);
  bool ReadMore(absl::Time deadline);

  pid_t pid_ = -1;
  bool detached_ = false;
  std::optional<int> status_;
  UniqueFd in_;   // its standard input
  UniqueFd out_;  // its standard output
  std::string buffer_;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_CHILD_PROCESS_H_
