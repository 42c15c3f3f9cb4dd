// Field cases about how the daemon deals with the kernel.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/sys/sysfs.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"

namespace hugepool::testing {
namespace {

constexpr char kStrace[] = "/usr/bin/strace";

std::vector<std::string> LinesOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return absl::StrSplit(text.str(), '\n', absl::SkipEmpty());
}

class MachineTest : public CaseTest {
 protected:
  // Starts the daemon under strace and returns what was traced until its pool
  // was full; empty where that is not possible.
  std::vector<std::string> TraceStart(const char* calls) {
    if (access(kStrace, X_OK) != 0) return {};
    char name[] = "/tmp/hptXXXXXX";
    const int fd = mkstemp(name);
    if (fd < 0) return {};
    close(fd);
    // -D: the daemon is our child, strace its grandchild.
    StartDaemon({.config = PoolOf2M(4),
                 // LeakSanitizer cannot work in a process that is traced.
                 .wrapper = {kStrace, "-D", "-f", "-E",
                             "ASAN_OPTIONS=detect_leaks=0", "-o", name, "-e",
                             absl::StrCat("trace=", calls)}});
    if (daemon_ != nullptr) {
      const absl::Status stopped = daemon_->Stop();
      EXPECT_TRUE(stopped.ok()) << stopped;
    }
    std::vector<std::string> lines = LinesOf(name);
    unlink(name);
    return lines;
  }
};

TEST_F(MachineTest, N12ThePolicyIsSetBeforeMemoryIsPopulated) {
  if (!HavePages(4)) return;
  const auto lines = TraceStart("mbind,madvise,fallocate");
  if (lines.empty()) GTEST_SKIP() << "strace cannot be used here";
  // Of each thread: before it populates a range it has bound that range.
  std::set<std::string> bound;
  size_t populated = 0;
  for (const std::string& line : lines) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" (,"), absl::SkipEmpty());
    if (words.size() < 3) continue;
    if (words[1] == "mbind") bound.insert(words[2]);
    const bool populates =
        words[1] == "madvise" && (absl::StrContains(line, "POPULATE_WRITE") ||
                                  absl::StrContains(line, "0x17"));
    if (!populates) continue;
    ++populated;
    EXPECT_FALSE(bound.empty()) << "populated before any policy: " << line;
    EXPECT_EQ(bound.count(words[2]), 1u) << "no policy for the range: " << line;
  }
  EXPECT_GT(populated, 0u) << absl::StrJoin(lines, "\n");
}

TEST_F(MachineTest, N58MemfdsAreMadeNotExecutable) {
  if (!HavePages(4)) return;
  const auto lines = TraceStart("memfd_create");
  if (lines.empty()) GTEST_SKIP() << "strace cannot be used here";
  size_t made = 0;
  for (const std::string& line : lines) {
    if (!absl::StrContains(line, "memfd_create(") ||
        absl::StrContains(line, " = -1")) {
      continue;
    }
    ++made;
    EXPECT_TRUE(absl::StrContains(line, "MFD_NOEXEC_SEAL") ||
                absl::StrContains(line, "|0x8"))
        << line;
  }
  EXPECT_GE(made, 4u);
}

TEST_F(MachineTest, N58TheKernelHasNothingToSay) {
  const ProgramResult before = RunProgram({"/usr/bin/dmesg"});
  if (before.exit_code != 0) GTEST_SKIP() << "dmesg: " << before.errors;
  if (!StartWithPages(8)) return;
  ExpectServes(8);
  ExpectAllBack();
  ASSERT_TRUE(daemon_->Stop().ok());
  const ProgramResult after = RunProgram({"/usr/bin/dmesg"});
  const std::vector<std::string> old =
      absl::StrSplit(before.output, '\n', absl::SkipEmpty());
  const std::set<std::string> known(old.begin(), old.end());
  for (const std::string& line : std::vector<std::string>(
           absl::StrSplit(after.output, '\n', absl::SkipEmpty()))) {
    if (known.count(line) != 0) continue;
    for (const char* word : {"hugepoold", "memfd", "hugetlb", "BUG", "WARN"}) {
      EXPECT_FALSE(absl::StrContains(line, word)) << line;
    }
  }
}

// A cpuset of its own, in whichever hierarchy there is.
class Cpuset {
 public:
  Cpuset() {
    for (const char* root : {"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/unified",
                             "/sys/fs/cgroup"}) {
      const std::string dir = absl::StrCat(root, "/hugepool-test-", getpid());
      if (access(absl::StrCat(root, "/cgroup.procs").c_str(), W_OK) != 0 ||
          mkdir(dir.c_str(), 0755) != 0) {
        continue;
      }
      if (sys::WriteSmallFile(dir + "/cpuset.mems", "0").ok() &&
          sys::WriteSmallFile(dir + "/cpuset.cpus", "1").ok()) {
        dir_ = dir;
        return;
      }
      rmdir(dir.c_str());
    }
  }
  ~Cpuset() {
    // The last process may be a moment in leaving.
    for (int i = 0; i < 200 && !dir_.empty() && rmdir(dir_.c_str()) != 0; ++i) {
      usleep(10000);
    }
  }
  const std::string& dir() const { return dir_; }

 private:
  std::string dir_;
};

TEST_F(MachineTest, N14WorksWithinItsCpuset) {
  const Cpuset cpuset;
  if (cpuset.dir().empty()) GTEST_SKIP() << "no cpuset can be made here";
  if (!HavePages(8)) return;
  RunAs as = UnprivilegedDaemon();
  as.cgroups = {cpuset.dir()};
  StartDaemon({.config = PoolOf2M(8), .as = as});
  ASSERT_NE(daemon_, nullptr);
  ExpectServes(8);
  // Not one thread was sent elsewhere.
  size_t threads = 0;
  for (const auto& task : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", daemon_->pid(), "/task"))) {
    const auto status = sys::ReadSmallFile(task.path().string() + "/status");
    if (!status.ok()) continue;
    const auto cpus = sys::FindField(*status, "Cpus_allowed_list");
    ASSERT_TRUE(cpus.ok());
    EXPECT_EQ(*cpus, "1");
    ++threads;
  }
  EXPECT_GT(threads, 1u);
  ExpectAllBack();
  EXPECT_TRUE(daemon_->Stop().ok());
}

// N50: at no moment is a socket open to more people than in the end.
TEST_F(MachineTest, N50SocketsAreNeverOpenToAll) {
  if (!HavePages(2)) return;
  const mode_t before = umask(0);
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    const std::string config =
        "backend: hugetlb\n"
        "listeners: [{dir: \"@DIR@\"}]\n"
        "pools: [{page_size: 2MiB, target: 4MiB}]\n";
    auto daemon = DaemonProcess::Launch({.config = config});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> looks{0};
    std::atomic<uint32_t> worst{0};
    std::thread watcher([&] {
      while (!stop) {
        for (const char* name : {"grpc.sock", "fd.sock", "admin.sock"}) {
          struct stat st = {};
          const std::string path = absl::StrCat((*daemon)->dir(), "/", name);
          if (lstat(path.c_str(), &st) != 0) continue;
          ++looks;
          worst = worst | (st.st_mode & 07777);
        }
      }
    });
    const absl::Status ready = (*daemon)->WaitReady(true, absl::Seconds(20));
    stop = true;
    watcher.join();
    EXPECT_TRUE(ready.ok()) << ready;
    EXPECT_GT(looks, 0u);
    EXPECT_EQ(worst & 0077, 0u) << std::oct << worst;
    EXPECT_TRUE((*daemon)->Stop().ok());
  }
  umask(before);
}

}  // namespace
}  // namespace hugepool::testing
