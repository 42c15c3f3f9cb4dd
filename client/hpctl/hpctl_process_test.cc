// hpctl as a process: run, and acquire --hold.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "client/hpctl/exit_code.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "daemon/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hugepool::hpctl {
namespace {

using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::TestDir;
using ::testing::HasSubstr;

// A running hpctl whose standard output is read here.
class Process {
 public:
  Process(const std::string& dir, std::vector<std::string> args) {
    args.insert(args.begin(), {"client/hpctl/hpctl", "--socket", dir});
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    out_.reset(ends[0]);
    UniqueFd write_end(ends[1]);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, write_end.get(), 1);
    EXPECT_EQ(
        posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
  }

  // Output until its end, or with `line` until a line end.
  std::string Read(bool line = false) {
    std::string text;
    char c;
    while (read(out_.get(), &c, 1) == 1) {
      text += c;
      if (line && c == '\n') break;
    }
    return text;
  }
  void Kill(int signal) { kill(pid_, signal); }
  // The exit code; 128 + the signal that ended it.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_ = -1;
  UniqueFd out_;
};

class HpctlProcessTest : public ::testing::Test {
 protected:
  HpctlProcessTest() : daemon_({.dir = dir_.path()}) { daemon_.Start(); }

  std::pair<int, std::string> Run(std::vector<std::string> args) {
    Process process(dir_.path(), std::move(args));
    std::string out = process.Read();
    return {process.Wait(), std::move(out)};
  }

  TestDir dir_;
  FakeDaemon daemon_;
};

TEST_F(HpctlProcessTest, RunGivesTheCommandItsMemory) {
  const auto [code, out] =
      Run({"run", "--size", "4M", "--", "sh", "-c",
           "echo fd={fd} fds=$HUGEPOOL_FDS size={size} $HUGEPOOL_SIZE; "
           "printf hello > /proc/self/fd/{fd} && "
           "head -c 5 /proc/self/fd/{fd}; exit 42"});
  EXPECT_EQ(code, 42);
  EXPECT_THAT(out, HasSubstr("size=4194304 4194304"));
  EXPECT_THAT(out, HasSubstr("\nhello"));
  const auto request = daemon_.last_request();
  EXPECT_EQ(request.lifetime(), v1::LIFETIME_MEMORY);
  EXPECT_EQ(request.segments(0).max_extents(), 1u);  // because of {fd}
  daemon_.WaitForAnswers(1);
  EXPECT_EQ(daemon_.acked().size(), 1u);
}

TEST_F(HpctlProcessTest, RunOfASessionLeaseWaitsAndReleases) {
  const auto [code, out] =
      Run({"run", "--lifetime", "session", "--size", "4M", "--", "sh", "-c",
           "for f in $(echo {fds} | tr , ' '); do head -c 1 /proc/self/fd/$f "
           "| wc -c; done; exit 3"});
  EXPECT_EQ(code, 3);
  EXPECT_EQ(out, "1\n1\n");
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_F(HpctlProcessTest, RunPassesSignalsOn) {
  Process process(
      dir_.path(),
      {"run", "--lifetime", "session", "--size", "2M", "--", "sh", "-c",
       "trap 'exit 9' TERM; echo up; while :; do read x; done"});
  EXPECT_EQ(process.Read(/*line=*/true), "up\n");
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), 9);
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_F(HpctlProcessTest, ExitCodesOfRun) {
  EXPECT_EQ(Run({"run", "--size", "2M", "--", "/no/such/command"}).first,
            kExitNoSuchCommand);
  EXPECT_EQ(Run({"run", "--size", "2M", "--", "/etc/passwd"}).first,
            kExitCannotExecute);
  EXPECT_EQ(daemon_.lease_count(), 0u);
  EXPECT_EQ(Run({"run", "--size", "2M"}).first, kExitRunFailed);
  EXPECT_EQ(Run({"run", "--size", "x", "--", "true"}).first, kExitRunFailed);
  EXPECT_EQ(Run({"run", "--", "true"}).first, kExitRunFailed);
  EXPECT_EQ(Run({"run", "--size", "100G", "--", "true"}).first, kExitRunFailed);
  EXPECT_EQ(
      Run({"run", "--size", "2M", "--size", "2M", "--", "echo", "{fd}"}).first,
      kExitRunFailed);
  daemon_.Stop();
  EXPECT_EQ(Run({"run", "--size", "2M", "--", "true"}).first, kExitRunFailed);
}

TEST_F(HpctlProcessTest, HoldEndsWithASignal) {
  Process process(dir_.path(),
                  {"-o", "json", "acquire", "--size", "4M", "--hold"});
  const auto json = nlohmann::json::parse(process.Read(/*line=*/true));
  EXPECT_EQ(daemon_.lease_count(), 1u);
  ASSERT_EQ(json["paths"].size(), 2u);
  EXPECT_EQ(access(json["paths"][0].get<std::string>().c_str(), R_OK), 0);
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), kExitOk);
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

// Killed without a chance to release: the session's end is the daemon's cue.
TEST_F(HpctlProcessTest, AKilledHoldLeavesTheRestToTheDaemon) {
  Process process(dir_.path(),
                  {"-o", "json", "acquire", "--size", "4M", "--hold"});
  process.Read(/*line=*/true);
  process.Kill(SIGKILL);
  EXPECT_EQ(process.Wait(), 128 + SIGKILL);
}

}  // namespace
}  // namespace hugepool::hpctl
