// Starts a program as another user, with the capabilities and limits that a
// test wants it to have:
//
//   launch [uid=N] [gid=N] [groups=N,N] [caps=chown,...] [nofile=N]
//          [cgroup=DIR,DIR] -- PROGRAM ARGUMENT...
//
// To be started by root. The program is opened before privileges are dropped,
// so it may lie where the user could not look. It is killed when the thread
// that started this one ends.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace {

struct Wanted {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<gid_t> groups;
  uint64_t caps = 0;  // bits
  uint64_t nofile = 0;
  std::vector<std::string> cgroups;
};

[[noreturn]] void Die(const std::string& what) {
  std::perror(absl::StrCat("launch: ", what).c_str());
  std::_Exit(126);
}

uint64_t CapabilityBits(const std::string& names) {
  static const std::map<std::string, int> kKnown = {
      {"chown", CAP_CHOWN},
      {"dac_read_search", CAP_DAC_READ_SEARCH},
      {"ipc_lock", CAP_IPC_LOCK},
      {"kill", CAP_KILL},
      {"sys_nice", CAP_SYS_NICE},
      {"sys_ptrace", CAP_SYS_PTRACE},
  };
  uint64_t bits = 0;
  for (const std::string& name : std::vector<std::string>(
           absl::StrSplit(names, ',', absl::SkipEmpty()))) {
    const auto it = kKnown.find(name);
    if (it == kKnown.end()) Die("unknown capability " + name);
    bits |= uint64_t{1} << it->second;
  }
  return bits;
}

void ParseWord(const std::string& word, Wanted* wanted) {
  const size_t eq = word.find('=');
  const std::string key = word.substr(0, eq);
  const std::string value = eq == std::string::npos ? "" : word.substr(eq + 1);
  bool good = true;
  if (key == "uid") {
    good = absl::SimpleAtoi(value, &wanted->uid);
  } else if (key == "gid") {
    good = absl::SimpleAtoi(value, &wanted->gid);
  } else if (key == "groups") {
    for (const std::string& group : std::vector<std::string>(
             absl::StrSplit(value, ',', absl::SkipEmpty()))) {
      uint32_t id = 0;
      good = good && absl::SimpleAtoi(group, &id);
      wanted->groups.push_back(id);
    }
  } else if (key == "caps") {
    wanted->caps = CapabilityBits(value);
  } else if (key == "nofile") {
    good = absl::SimpleAtoi(value, &wanted->nofile);
  } else if (key == "cgroup") {
    wanted->cgroups = absl::StrSplit(value, ',', absl::SkipEmpty());
  } else {
    good = false;
  }
  if (!good) Die("bad argument " + word);
}

// Before the user changes: joining cgroups and raising limits need root.
void JoinAndLimit(const Wanted& wanted) {
  for (const std::string& dir : wanted.cgroups) {
    const int fd = open((dir + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) Die("join " + dir);
    close(fd);
  }
  if (wanted.nofile != 0) {
    const rlimit files = {wanted.nofile, wanted.nofile};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) Die("RLIMIT_NOFILE");
  }
}

void BecomeUser(const Wanted& wanted) {
  if (wanted.uid == 0 && wanted.gid == 0 && wanted.groups.empty()) return;
  if (setgroups(wanted.groups.size(), wanted.groups.data()) != 0) {
    Die("setgroups");
  }
  if (setresgid(wanted.gid, wanted.gid, wanted.gid) != 0) Die("setresgid");
  if (wanted.caps != 0) prctl(PR_SET_KEEPCAPS, 1);
  if (setresuid(wanted.uid, wanted.uid, wanted.uid) != 0) Die("setresuid");
  if (wanted.caps == 0) return;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int i = 0; i < 2; ++i) {
    const auto part = static_cast<uint32_t>(wanted.caps >> (32 * i));
    data[i] = {part, part, part};
  }
  if (syscall(SYS_capset, &header, data) != 0) Die("capset");
  for (unsigned long cap = 0; cap < 64; ++cap) {
    if ((wanted.caps >> cap & 1) == 0) continue;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0) {
      Die("ambient capability");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    ParseWord(argv[i], &wanted);
  }
  if (i + 1 >= argc) Die("no program");
  char** const program = argv + i + 1;
  const int exe = open(program[0], O_RDONLY | O_CLOEXEC);
  if (exe < 0) Die(absl::StrCat("open ", program[0]));
  const pid_t parent = getppid();
  JoinAndLimit(wanted);
  BecomeUser(wanted);
  // After the change of user, which would clear it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(126);
  syscall(SYS_execveat, exe, "", program, environ, AT_EMPTY_PATH);
  Die(absl::StrCat("execute ", program[0]));
}
