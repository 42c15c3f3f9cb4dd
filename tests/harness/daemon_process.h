// A hugepoold of its own for a test.
#ifndef HUGEPOOL_TESTS_HARNESS_DAEMON_PROCESS_H_
#define HUGEPOOL_TESTS_HARNESS_DAEMON_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "hugepool/v1/hugepool.pb.h"
#include "tests/harness/child_process.h"

namespace hugepool::testing {

// The uid that the daemon has in tests where it is not root, and the
// capability that it needs then.
inline constexpr uint32_t kDaemonUid = 64000;
RunAs UnprivilegedDaemon();

struct DaemonOptions {
  // YAML; @DIR@ stands for the private directory of the sockets.
  std::string config;
  std::vector<std::string> extra_args;  // e.g. "--plant=skip-clear"
  RunAs as;
  // Wait until every pool is full, not only until it serves.
  bool wait_full = true;
  absl::Duration start_within = absl::Seconds(30);
  // In front of the daemon's command line, e.g. strace.
  std::vector<std::string> wrapper;
  // A directory of an earlier daemon to start in; empty: a new one.
  std::string dir;
};

// Stopped (or killed) at the end of its life; its directory is removed unless
// it was given. Not thread-safe.
class DaemonProcess {
 public:
  // Starts a daemon and waits until it is ready. Its log is in the error where
  // it is not.
  static absl::StatusOr<std::unique_ptr<DaemonProcess>> Start(
      DaemonOptions options);
  // Starts one without waiting for anything.
  static absl::StatusOr<std::unique_ptr<DaemonProcess>> Launch(
      DaemonOptions options);
  ~DaemonProcess();

  const std::string& dir() const { return dir_; }
  pid_t pid() const { return child_->pid(); }
  ChildProcess& child() { return *child_; }

  absl::Status WaitReady(bool full, absl::Duration timeout);
  // SIGTERM. An error where it does not exit with 0 within `grace`.
  absl::Status Stop(absl::Duration grace = absl::Seconds(15));
  // SIGKILL.
  void Kill() { child_->Kill(); }
  bool Alive();
  // What it wrote to standard error so far.
  std::string Log() const;
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  // Open descriptors of the daemon.
  size_t OpenFiles() const;

 private:
  DaemonProcess() = default;

  std::string dir_;
  bool owns_dir_ = true;
  std::string log_path_;
  std::unique_ptr<ChildProcess> child_;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_DAEMON_PROCESS_H_
