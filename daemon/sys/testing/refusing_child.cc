#include "daemon/sys/testing/refusing_child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace hugepool::sys::testing {
namespace {

bool Install(const Refusal& refusal) {
  const auto load = [](size_t offset) -> sock_filter {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
  };
  const bool looks = refusal.argument >= 0;
  std::vector<sock_filter> code;
  code.push_back(load(offsetof(seccomp_data, nr)));
  // Not this call: skip to the last line.
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                          static_cast<uint32_t>(refusal.syscall_number), 0,
                          static_cast<uint8_t>(looks ? 3 : 1)));
  if (looks) {  // the lower half, first on little-endian machines
    code.push_back(load(offsetof(seccomp_data, args) +
                        static_cast<size_t>(refusal.argument) * 8));
    const uint16_t test = refusal.equals.has_value() ? BPF_JEQ : BPF_JSET;
    code.push_back(
        BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K),
                 refusal.equals.value_or(refusal.has_bit.value_or(0)), 0, 1));
  }
  code.push_back(BPF_STMT(
      BPF_RET | BPF_K,
      SECCOMP_RET_ERRNO | static_cast<uint32_t>(refusal.error_number)));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program = {.len = static_cast<uint16_t>(code.size()),
                        .filter = code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

int RunRefusing(const Refusal& refusal, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) _exit(Install(refusal) ? body() & 0x7f : 0xff);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 0xff) return -1;
  return WEXITSTATUS(status);
}

}  // namespace hugepool::sys::testing
