#include "daemon/sys/sched_class.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/errno_status.h"
#include "daemon/sys/fake_sched_class.h"
#include "daemon/sys/testing/refusing_child.h"
#include "gtest/gtest.h"

namespace hugepool::sys {
namespace {

using testing::RunRefusing;

TEST(SchedClassTest, AThreadGoesIdleAndIsBroughtBack) {
  LinuxSchedClass sched;
  if (const absl::Status can = CanLeaveIdleClass(sched); !can.ok()) {
    GTEST_SKIP() << can;
  }
  ASSERT_TRUE(sched.SetIdle(ThisThread()).ok());
  EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  ASSERT_TRUE(sched.SetNormal(ThisThread()).ok());
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

TEST(SchedClassTest, AThreadIsNiceAndIsBroughtBack) {
  LinuxSchedClass sched;
  if (const absl::Status can = CanLeaveIdleClass(sched); !can.ok()) {
    GTEST_SKIP() << can;
  }
  const int before = getpriority(PRIO_PROCESS, 0);
  ASSERT_TRUE(sched.SetNice(ThisThread()).ok());
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), std::min(19, before + 10));
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  ASSERT_TRUE(sched.SetNormal(ThisThread()).ok());
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
  EXPECT_EQ(ErrnoOf(sched.SetNice(0x7ffffff0)), ESRCH);
}

// Not of this thread: that would stay idle where the answer is no.
TEST(SchedClassTest, TheTrialLeavesTheCallerAsItIs) {
  LinuxSchedClass sched;
  (void)CanLeaveIdleClass(sched);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

TEST(SchedClassTest, AThreadThatIsNotThereIsAnError) {
  LinuxSchedClass sched;
  EXPECT_EQ(ErrnoOf(sched.SetNormal(0x7ffffff0)), ESRCH);
  EXPECT_EQ(ErrnoOf(sched.SetIdle(0x7ffffff0)), ESRCH);
}

// What an ordinary user's daemon meets: no capability, no RLIMIT_NICE.
TEST(SchedClassTest, AnOrdinaryUserIsToldThatThereIsNoWayBack) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  // A call that is not made is refused: only for the child.
  const int result =
      RunRefusing({.syscall_number = SYS_reboot, .error_number = EPERM}, [] {
        const rlimit none = {0, 0};
        if (setrlimit(RLIMIT_NICE, &none) != 0) return 1;
        if (setresuid(65534, 65534, 65534) != 0) return 2;
        LinuxSchedClass sched;
        const absl::Status status = CanLeaveIdleClass(sched);
        return absl::IsPermissionDenied(status) ? 0 : 3;
      });
  EXPECT_EQ(result, 0);
}

TEST(SchedClassTest, RlimitNiceIsEnough) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const int result =
      RunRefusing({.syscall_number = SYS_reboot, .error_number = EPERM}, [] {
        const rlimit to_zero = {20, 20};
        if (setrlimit(RLIMIT_NICE, &to_zero) != 0) return 77;
        if (setresuid(65534, 65534, 65534) != 0) return 2;
        LinuxSchedClass sched;
        return CanLeaveIdleClass(sched).ok() ? 0 : 3;
      });
  if (result == 77) GTEST_SKIP() << "raising RLIMIT_NICE is not allowed here";
  EXPECT_EQ(result, 0);
}

TEST(SchedClassTest, ARefusalIsPassedOn) {
  FakeSchedClass sched;
  EXPECT_TRUE(CanLeaveIdleClass(sched).ok());
  EXPECT_EQ(sched.raised(), 1);
  sched.Refuse(absl::PermissionDeniedError("no"));
  EXPECT_EQ(CanLeaveIdleClass(sched).code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace hugepool::sys
