#include "tests/harness/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "daemon/base/errno_status.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

std::vector<std::string> LaunchArguments(const std::vector<std::string>& argv,
                                         const RunAs& as) {
  std::vector<std::string> words = {
      RunfilePath("tests/harness/launch"), absl::StrCat("uid=", as.uid),
      absl::StrCat("gid=", as.gid), absl::StrCat("nofile=", as.nofile)};
  if (!as.groups.empty()) {
    words.push_back(absl::StrCat("groups=", absl::StrJoin(as.groups, ",")));
  }
  if (!as.caps.empty()) words.push_back("caps=" + as.caps);
  if (!as.cgroups.empty()) {
    words.push_back(absl::StrCat("cgroup=", absl::StrJoin(as.cgroups, ",")));
  }
  words.push_back("--");
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

absl::Status Pipe(UniqueFd* read_end, UniqueFd* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "pipe2");
  read_end->reset(fds[0]);
  write_end->reset(fds[1]);
  return absl::OkStatus();
}

// The child's standard descriptors.
class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  void Dup(int from, int to) {
    posix_spawn_file_actions_adddup2(&actions_, from, to);
  }
  void Append(int fd, const std::string& path) {
    posix_spawn_file_actions_addopen(&actions_, fd, path.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv, const RunAs& as,
    const std::string& stderr_path) {
  return Spawn(LaunchArguments(argv, as), 0, stderr_path);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::StartDetached(
    const std::vector<std::string>& argv) {
  HP_ASSIGN_OR_RETURN(auto child, Spawn(argv, POSIX_SPAWN_SETSID, ""));
  child->detached_ = true;
  return child;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(
    std::vector<std::string> words, short flags,
    const std::string& stderr_path) {
  // A write to a child that is gone is an error, not our end.
  signal(SIGPIPE, SIG_IGN);
  UniqueFd child_in;
  UniqueFd child_out;
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  HP_RETURN_IF_ERROR(Pipe(&child_in, &child->in_));
  HP_RETURN_IF_ERROR(Pipe(&child->out_, &child_out));
  FileActions actions;
  actions.Dup(child_in.get(), STDIN_FILENO);
  actions.Dup(child_out.get(), STDOUT_FILENO);
  if (!stderr_path.empty()) actions.Append(STDERR_FILENO, stderr_path);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t default_signals;
  sigemptyset(&default_signals);
  sigaddset(&default_signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &default_signals);
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGDEF | flags));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int failed = posix_spawn(&child->pid_, words[0].c_str(), actions.get(),
                                 &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    child->pid_ = -1;
    return ErrnoToStatus(failed, "posix_spawn " + words[0]);
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (!detached_) Kill();
}

void ChildProcess::Signal(int signal_number) {
  if (pid_ > 0 && !status_.has_value()) kill(pid_, signal_number);
}

std::optional<int> ChildProcess::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!status_.has_value() && pid_ > 0) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      status_ = status;
    } else if (ended < 0 && errno != EINTR) {
      status_ = -1;
    } else if (absl::Now() >= deadline) {
      return std::nullopt;
    } else {
      poll(nullptr, 0, 1);
    }
  }
  return status_;
}

void ChildProcess::Kill() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  Wait(absl::InfiniteDuration());
}

bool ChildProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  return write(in_.get(), text.data(), text.size()) ==
         static_cast<ssize_t>(text.size());
}

bool ChildProcess::ReadMore(absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    pollfd p = {out_.get(), POLLIN, 0};
    const int64_t ms =
        std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 0, 1 << 30);
    const int n = poll(&p, 1, static_cast<int>(ms));
    if (n == 0) return false;
    if (n < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    char bytes[4096];
    const ssize_t got = read(out_.get(), bytes, sizeof(bytes));
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }
}

std::optional<std::string> ChildProcess::ReadLine(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (!ReadMore(deadline)) return std::nullopt;
  }
}

std::string ChildProcess::ReadAll(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (ReadMore(deadline)) {
  }
  return std::exchange(buffer_, "");
}

}  // namespace hugepool::testing
