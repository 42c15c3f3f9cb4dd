#include "daemon/sys/sched_class.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool::sys {
namespace {

// A weight of 110 against 1024, by the kernel's table.
constexpr int kNicer = 10;
constexpr int kNicest = 19;

absl::Status SetPolicy(pid_t thread, int policy, const char* name) {
  const sched_param no_priority = {};
  if (sched_setscheduler(thread, policy, &no_priority) == 0) {
    return absl::OkStatus();
  }
  return ErrnoToStatus(errno, absl::StrCat("sched_setscheduler(thread ", thread,
                                           ", ", name, ")"));
}

absl::Status SetNiceTo(pid_t thread, int nice) {
  // On Linux this is of one thread.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice) == 0) {
    return absl::OkStatus();
  }
  // Without the right to it the kernel says EACCES.
  return ErrnoToStatus(
      errno, absl::StrCat("setpriority(thread ", thread, ", ", nice, ")"));
}

}  // namespace

pid_t ThisThread() { return gettid(); }

absl::Status LinuxSchedClass::SetIdle(pid_t thread) {
  HP_RETURN_IF_ERROR(SetPolicy(thread, SCHED_IDLE, "SCHED_IDLE"));
  if (thread == gettid()) sched_yield();
  return absl::OkStatus();
}

LinuxSchedClass::LinuxSchedClass() : nice_(getpriority(PRIO_PROCESS, 0)) {}

absl::Status LinuxSchedClass::SetNice(pid_t thread) {
  return SetNiceTo(thread, std::min(nice_ + kNicer, kNicest));
}

absl::Status LinuxSchedClass::SetNormal(pid_t thread) {
  // In this order: from the idle class the value alone would change nothing.
  HP_RETURN_IF_ERROR(SetPolicy(thread, SCHED_OTHER, "SCHED_OTHER"));
  return SetNiceTo(thread, nice_);
}

absl::Status CanLeaveIdleClass(SchedClass& sched) {
  // Both from outside: the thread itself would have to wait for its turn.
  std::promise<pid_t> number;
  std::promise<void> end;
  std::thread thread([&number, ended = end.get_future()] {
    number.set_value(ThisThread());
    ended.wait();
  });
  const pid_t it = number.get_future().get();
  absl::Status status = sched.SetIdle(it);
  if (status.ok()) status = sched.SetNice(it);
  if (status.ok()) status = sched.SetNormal(it);
  end.set_value();
  thread.join();
  return status;
}

}  // namespace hugepool::sys
