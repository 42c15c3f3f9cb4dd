// run.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/hpctl/allocation.h"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/lease_print.h"
#include "client/hpctl/rpc.h"

namespace hugepool::hpctl {
namespace {

int RunFailed(const Globals& globals, const absl::Status& status) {
  Report(globals, status);
  return kExitRunFailed;
}

int CannotStart(const Globals& globals, const std::string& command,
                int error_number) {
  *globals.err << "hpctl: " << command << ": " << std::strerror(error_number)
               << "\n";
  return error_number == ENOENT ? kExitNoSuchCommand : kExitCannotExecute;
}

// The command with its placeholders filled in; what it is told is also put
// into this process's environment, for the command to inherit.
std::vector<std::string> FillIn(const std::vector<std::string>& command,
                                const client::HeldLease& held) {
  const std::string fds =
      absl::StrJoin(*held.fds, ",", [](std::string* out, const UniqueFd& fd) {
        absl::StrAppend(out, fd.get());
      });
  const std::string size = absl::StrCat(TotalSize(held.lease));
  setenv("HUGEPOOL_FDS", fds.c_str(), 1);
  setenv("HUGEPOOL_SIZE", size.c_str(), 1);
  setenv("HUGEPOOL_LEASE", held.lease.lease_id().c_str(), 1);
  std::vector<std::string> out;
  for (const std::string& word : command) {
    out.push_back(absl::StrReplaceAll(
        word, {{"{fd}", absl::StrCat(held.fds->front().get())},
               {"{fds}", fds},
               {"{size}", size}}));
  }
  return out;
}

std::vector<char*> Argv(std::vector<std::string>* words) {
  std::vector<char*> argv;
  for (std::string& word : *words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

// The lease does not need this process: the command takes its place.
int Exec(const Globals& globals, std::vector<std::string> words,
         const client::HeldLease& held) {
  const std::vector<char*> argv = Argv(&words);
  for (const UniqueFd& fd : *held.fds) {
    if (fcntl(fd.get(), F_SETFD, 0) != 0) {
      return CannotStart(globals, "fcntl(F_SETFD)", errno);
    }
  }
  globals.out->flush();
  execvp(argv[0], argv.data());
  return CannotStart(globals, words[0], errno);
}

// Signals that the command gets instead of us. Those of the terminal (SIGINT,
// SIGQUIT) reach it anyway, and must not end us first.
sigset_t WaitedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT}) {
    sigaddset(&set, signal);
  }
  return set;
}

int WaitFor(pid_t child, const sigset_t& signals) {
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == SIGTERM || signal == SIGHUP) kill(child, signal);
  }
}

// The lease ends with this process's session: stay until the command ends.
int SpawnAndWait(const Globals& globals, std::vector<std::string> words,
                 const client::HeldLease& held, const sigset_t& signals,
                 const sigset_t& old_mask) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  // A dup2 onto itself clears close-on-exec in the child, and there only.
  for (const UniqueFd& fd : *held.fds) {
    posix_spawn_file_actions_adddup2(&files, fd.get(), fd.get());
  }
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &old_mask);
  const std::vector<char*> argv = Argv(&words);
  pid_t child = 0;
  const int error_number =
      posix_spawnp(&child, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error_number != 0) return CannotStart(globals, words[0], error_number);
  return WaitFor(child, signals);
}

bool Uses(const std::vector<std::string>& command, const char* placeholder) {
  for (const std::string& word : command) {
    if (absl::StrContains(word, placeholder)) return true;
  }
  return false;
}

int Run(const Globals& globals, AllocationFlags flags,
        const std::vector<std::string>& command) {
  if (command.empty()) {
    *globals.err << "hpctl: run needs a command: hpctl run --size 1G -- CMD\n";
    return kExitRunFailed;
  }
  if (Uses(command, "{fd}")) {
    if (flags.sizes.size() > 1) {
      *globals.err << "hpctl: {fd} is one descriptor; with several --size "
                      "write {fds}\n";
      return kExitRunFailed;
    }
    flags.single_fd = true;
  }
  const auto request = BuildAcquireRequest(flags, v1::LIFETIME_MEMORY);
  if (!request.ok()) return RunFailed(globals, request.status());
  const bool stay = request->lifetime() == v1::LIFETIME_SESSION;
  const sigset_t signals = WaitedSignals();
  sigset_t old_mask;
  sigemptyset(&old_mask);
  if (stay) pthread_sigmask(SIG_BLOCK, &signals, &old_mask);
  const auto connection = ConnectSession(globals);
  if (!connection.ok()) return RunFailed(globals, connection.status());
  auto held = (*connection)->Acquire(*request, {.map = false});
  if (!held.ok()) return RunFailed(globals, held.status());
  std::vector<std::string> words = FillIn(command, *held);
  const int code =
      stay ? SpawnAndWait(globals, std::move(words), *held, signals, old_mask)
           : Exec(globals, std::move(words), *held);
  // Here the command has ended or was never started.
  const std::string id = held->lease.lease_id();
  *held = client::HeldLease();
  (*connection)->Release(id).status().IgnoreError();
  return code;
}

}  // namespace

void AddRunCommand(CLI::App* app, const Globals* globals,
                   const std::vector<std::string>* command, Action* action) {
  auto* run = app->add_subcommand(
      "run",
      "runs a command with leased memory: run --size 1G -- CMD ARGS. {fd}, "
      "{fds} and {size} are replaced in ARGS; HUGEPOOL_FDS, HUGEPOOL_SIZE and "
      "HUGEPOOL_LEASE are set");
  const auto flags = std::make_shared<AllocationFlags>();
  AddAllocationFlags(run, flags.get());
  run->callback(
      [=] { *action = [=] { return Run(*globals, *flags, *command); }; });
}

}  // namespace hugepool::hpctl
