// A client in a process of its own, under a user of its own, that does what the
// test says, line by line (see test_client.cc for what it understands).
#ifndef HUGEPOOL_TESTS_HARNESS_CLIENT_PROCESS_H_
#define HUGEPOOL_TESTS_HARNESS_CLIENT_PROCESS_H_

#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/harness/child_process.h"
#include "tests/harness/line.h"

namespace hugepool::testing {

// Killed at the end of its life, with the children it made. Not thread-safe.
class ClientProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ClientProcess>> Start(
      const RunAs& as = {});
  ~ClientProcess();

  // Says a line and returns the answer: "ok key=value..." or "error code=...
  // reason=... message=...". Where the process is gone or does not answer:
  // "error code=GONE".
  Line Ask(const Line& line, absl::Duration timeout = absl::Seconds(60));
  // The same in two steps, to have something happen in between.
  void Say(const Line& line);
  Line Answer(absl::Duration timeout = absl::Seconds(60));

  pid_t pid() const { return child_->pid(); }
  // SIGKILL; its children live on.
  void Kill() { child_->Kill(); }
  // SIGKILL for the children it reported (answers with pid=).
  void KillChildren();
  ChildProcess& child() { return *child_; }

 private:
  ClientProcess() = default;

  std::unique_ptr<ChildProcess> child_;
  std::set<pid_t> children_;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_CLIENT_PROCESS_H_
