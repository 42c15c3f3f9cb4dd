#include "daemon/sys/bus_guard.h"

#include <csetjmp>
#include <csignal>

namespace hugepool::sys {
namespace {

// The guard that this thread is in. volatile: the handler runs on the same
// thread, between any two instructions; no other thread ever looks.
struct Guard {
  sigjmp_buf back;
  BusFault fault;
};
thread_local Guard* volatile current = nullptr;

void OnSigbus(int signal, siginfo_t* info, void*) {
  Guard* const guard = current;
  if (guard == nullptr) {
    // Not ours: the instruction is run again and ends the process.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    return;
  }
  guard->fault.address = info->si_addr;
  guard->fault.poisoned =
      info->si_code == BUS_MCEERR_AR || info->si_code == BUS_MCEERR_AO;
  siglongjmp(guard->back, 1);
}

bool Install() {
  struct sigaction action = {};
  action.sa_sigaction = OnSigbus;
  // NODEFER: the mask is as it was when we jump out, so that entering a guard
  // costs no system call to save it.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

std::optional<BusFault> Guarded(absl::FunctionRef<void()> access) {
  static const bool installed = Install();
  (void)installed;  // it cannot fail: the signal exists and can be caught
  Guard guard;
  if (sigsetjmp(guard.back, 0) != 0) {
    current = nullptr;
    return guard.fault;
  }
  current = &guard;
  access();
  current = nullptr;
  return std::nullopt;
}

}  // namespace hugepool::sys
