#include "daemon/sys/sched_class.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool::sys {
namespace {

absl::Status SetPolicy(pid_t thread, int policy, const char* name) {
  const sched_param no_priority = {};
  if (sched_setscheduler(thread, policy, &no_priority) == 0) {
    return absl::OkStatus();
  }
  return ErrnoToStatus(errno, absl::StrCat("sched_setscheduler(thread ", thread,
                                           ", ", name, ")"));
}

}  // namespace

pid_t ThisThread() { return gettid(); }

absl::Status LinuxSchedClass::SetIdle(pid_t thread) {
  HP_RETURN_IF_ERROR(SetPolicy(thread, SCHED_IDLE, "SCHED_IDLE"));
  if (thread == gettid()) sched_yield();
  return absl::OkStatus();
}

absl::Status LinuxSchedClass::SetNormal(pid_t thread) {
  return SetPolicy(thread, SCHED_OTHER, "SCHED_OTHER");
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
  if (status.ok()) status = sched.SetNormal(it);
  end.set_value();
  thread.join();
  return status;
}

}  // namespace hugepool::sys
