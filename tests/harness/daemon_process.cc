#include "tests/harness/daemon_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "daemon/base/errno_status.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

// For everybody to look into, and for the daemon to write to.
absl::StatusOr<std::string> MakeDirectory(const RunAs& as) {
  char name[] = "/tmp/hpdXXXXXX";
  if (mkdtemp(name) == nullptr) return ErrnoToStatus(errno, "mkdtemp");
  if (chmod(name, 0755) != 0 || chown(name, as.uid, as.gid) != 0) {
    return ErrnoToStatus(errno, absl::StrCat("chown ", name));
  }
  return std::string(name);
}

absl::Status WriteConfig(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return absl::InternalError("cannot write " + path);
  chmod(path.c_str(), 0644);
  return absl::OkStatus();
}

std::string Ended(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exit code ", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return absl::StrCat("signal ", WTERMSIG(status));
  return absl::StrCat("wait status ", status);
}

}  // namespace

RunAs UnprivilegedDaemon() {
  return {.uid = kDaemonUid, .gid = kDaemonUid, .caps = "chown"};
}

absl::StatusOr<std::unique_ptr<DaemonProcess>> DaemonProcess::Launch(
    DaemonOptions options) {
  std::unique_ptr<DaemonProcess> d(new DaemonProcess);
  d->dir_ = options.dir;
  d->owns_dir_ = options.dir.empty();
  if (d->owns_dir_) {
    HP_ASSIGN_OR_RETURN(d->dir_, MakeDirectory(options.as));
  }
  static int number = 0;
  const std::string name = absl::StrCat(d->dir_, "/", getpid(), "-", ++number);
  d->log_path_ = name + ".log";
  const std::string config = name + ".yaml";
  HP_RETURN_IF_ERROR(WriteConfig(
      config, absl::StrReplaceAll(options.config, {{"@DIR@", d->dir_}})));
  std::vector<std::string> argv = options.wrapper;
  argv.push_back(RunfilePath("daemon/server/hugepoold"));
  argv.insert(argv.end(), {"--config", config, "--run-dir", d->dir_});
  argv.insert(argv.end(), options.extra_args.begin(), options.extra_args.end());
  HP_ASSIGN_OR_RETURN(d->child_,
                      ChildProcess::Start(argv, options.as, d->log_path_));
  return d;
}

absl::StatusOr<std::unique_ptr<DaemonProcess>> DaemonProcess::Start(
    DaemonOptions options) {
  const bool full = options.wait_full;
  const absl::Duration within = options.start_within;
  HP_ASSIGN_OR_RETURN(auto daemon, Launch(std::move(options)));
  HP_RETURN_IF_ERROR(daemon->WaitReady(full, within));
  return daemon;
}

DaemonProcess::~DaemonProcess() {
  if (child_ != nullptr) {
    if (Alive()) (void)Stop();
    child_->Kill();
  }
  // Of failed tests the log is worth seeing.
  if (std::uncaught_exceptions() == 0 &&
      getenv("HUGEPOOL_SHOW_LOG") != nullptr) {
    std::fprintf(stderr, "%s", Log().c_str());
  }
  if (owns_dir_ && !dir_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
}

absl::Status DaemonProcess::WaitReady(bool full, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  RawCalls calls(dir_);
  std::string last = "not asked";
  while (true) {
    if (const auto ended = child_->Wait(absl::ZeroDuration())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the daemon ended: ", Ended(*ended), "\n", Log()));
    }
    if (access((dir_ + "/grpc.sock").c_str(), F_OK) == 0 &&
        access((dir_ + "/fd.sock").c_str(), F_OK) == 0) {
      const auto status = calls.GetStatus();
      last =
          status.ok() ? status->ShortDebugString() : status.status().ToString();
      if (status.ok() && (!full || status->ready())) return absl::OkStatus();
    }
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the daemon is not ready: ", last, "\n", Log()));
    }
    poll(nullptr, 0, 10);
  }
}

absl::Status DaemonProcess::Stop(absl::Duration grace) {
  child_->Signal(SIGTERM);
  const auto ended = child_->Wait(grace);
  if (!ended.has_value()) {
    return absl::DeadlineExceededError("no exit after SIGTERM\n" + Log());
  }
  if (!WIFEXITED(*ended) || WEXITSTATUS(*ended) != 0) {
    return absl::InternalError(absl::StrCat(Ended(*ended), "\n", Log()));
  }
  return absl::OkStatus();
}

bool DaemonProcess::Alive() {
  return !child_->Wait(absl::ZeroDuration()).has_value();
}

std::string DaemonProcess::Log() const {
  std::ifstream file(log_path_);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<v1::GetStatusResponse> DaemonProcess::GetStatus() {
  return RawCalls(dir_).GetStatus();
}

size_t DaemonProcess::OpenFiles() const {
  std::error_code ignored;
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", child_->pid(), "/fd"), ignored)) {
    ++n;
  }
  return n;
}

}  // namespace hugepool::testing
