#include "daemon/sys/pressure.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "daemon/sys/sysfs.h"
#include "daemon/sys/testing/busy_children.h"
#include "daemon/sys/testing/fake_tree.h"
#include "gtest/gtest.h"

namespace hugepool::sys {
namespace {

using testing::BusyChildren;
using testing::FakeTree;

TEST(SomeAvg10Test, ReadsTheKernelsLine) {
  EXPECT_EQ(SomeAvg10("some avg10=3.22 avg60=5.59 avg300=5.80 total=55\n"
                      "full avg10=0.50 avg60=0.00 avg300=0.00 total=0"),
            3.22);
  EXPECT_EQ(SomeAvg10("some avg10=0.00 avg60=5.59"), 0);
  for (const char* bad : {"", "full avg10=0.50", "some avg10=x avg60=1",
                          "some avg10=-1 a", "some avg10=101 a",
                          "some avg10=nan a", "some avg60=1"}) {
    EXPECT_EQ(SomeAvg10(bad), std::nullopt) << bad;
  }
}

class CgroupPressureTest : public ::testing::Test {
 protected:
  void Mounted(const std::string& group, const std::string& at) {
    tree_.Put("/proc/self/mountinfo",
              "22 1 0:21 / /proc rw - proc proc rw\n"
              "29 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
              "30 23 0:27 " + group + " " + at +
                  " rw,nosuid shared:4 - cgroup2 cgroup2 rw");
  }
  void Own(const std::string& group) {
    tree_.Put("/proc/self/cgroup", "1:cpu:/elsewhere\n0::" + group);
  }
  void Put(const std::string& file, const char* avg10) {
    tree_.Put(file, "some avg10=" + std::string(avg10) +
                        " avg60=0.00 avg300=0.00 total=1\n"
                        "full avg10=99.00 avg60=0.00 avg300=0.00 total=0");
  }
  std::optional<double> Read() { return CgroupPressure(tree_.Path("")).Read(); }

  FakeTree tree_;
};

TEST_F(CgroupPressureTest, TheMostOfThoseBesideTheWayToOurs) {
  Mounted("/", "/sys/fs/cgroup");
  Own("/system.slice/hugepool.service");
  const std::string top = "/sys/fs/cgroup";
  // Ours, and all that hold ours: our own workers are in there.
  for (const char* ours : {"", "/system.slice", "/system.slice/hugepool.service"}) {
    Put(top + ours + "/cpu.pressure", "90.00");
    Put(top + ours + "/memory.pressure", "90.00");
  }
  EXPECT_EQ(Read(), std::nullopt);
  Put(top + "/user.slice/cpu.pressure", "1.50");
  EXPECT_EQ(Read(), 1.5);
  Put(top + "/system.slice/db.service/cpu.pressure", "7.25");
  EXPECT_EQ(Read(), 7.25);
  Put(top + "/user.slice/memory.pressure", "8.00");
  EXPECT_EQ(Read(), 8);
  // Part of user.slice, whose figure has it already.
  Put(top + "/user.slice/x/cpu.pressure", "50.00");
  EXPECT_EQ(Read(), 8);
  Put(top + "/system.slice/hugepool.service/child/cpu.pressure", "9.00");
  EXPECT_EQ(Read(), 9);
}

TEST_F(CgroupPressureTest, FindsTheHierarchyBesideVersionOne) {
  Mounted("/", "/sys/fs/cgroup/unified");
  Own("/");
  Put("/sys/fs/cgroup/unified/cpu.pressure", "90.00");
  Put("/sys/fs/cgroup/unified/a/cpu.pressure", "2.00");
  EXPECT_EQ(Read(), 2);
}

TEST_F(CgroupPressureTest, InAContainerItSeesWhatIsMountedThere) {
  Mounted("/pods/p1", "/sys/fs/cgroup");
  Own("/pods/p1/ours");
  Put("/sys/fs/cgroup/ours/cpu.pressure", "90.00");
  Put("/sys/fs/cgroup/other/cpu.pressure", "3.00");
  EXPECT_EQ(Read(), 3);
  // Of another than ours nothing is known of.
  for (const char* own : {"/pods/p10/ours", "/pods", "/../p1", "/"}) {
    Own(own);
    EXPECT_EQ(Read(), std::nullopt) << own;
  }
}

TEST_F(CgroupPressureTest, WithoutTheKernelsFilesThereIsNothing) {
  EXPECT_EQ(Read(), std::nullopt);
  tree_.Put("/proc/self/mountinfo", "22 1 0:21 / /proc rw - proc proc rw");
  Own("/");
  EXPECT_EQ(Read(), std::nullopt);
  Mounted("/", "/sys/fs/cgroup");
  EXPECT_EQ(Read(), std::nullopt);
  tree_.Put("/proc/self/cgroup", "1:cpu:/elsewhere");
  Put("/sys/fs/cgroup/a/cpu.pressure", "2.00");
  EXPECT_EQ(Read(), std::nullopt);
}

// The kernel's own figures: a group of busy processes, two on each CPU.
TEST(RealCgroupPressureTest, SeesOthersThatWait) {
  std::string top;
  for (const char* at : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    if (access((std::string(at) + "/cgroup.controllers").c_str(), W_OK) == 0 ||
        access((std::string(at) + "/cgroup.procs").c_str(), W_OK) == 0) {
      top = at;
      break;
    }
  }
  const std::string group =
      top + "/hugepool-pressure-" + std::to_string(getpid());
  if (top.empty() || mkdir(group.c_str(), 0755) != 0) {
    GTEST_SKIP() << "cannot make a control group of version 2";
  }
  const CgroupPressure pressure;
  double most = 0;
  if (access((group + "/cpu.pressure").c_str(), R_OK) == 0) {
    const BusyChildren busy(2);
    for (const pid_t child : busy.pids()) {
      EXPECT_TRUE(
          WriteSmallFile(group + "/cgroup.procs", std::to_string(child)).ok());
    }
    // The kernel computes its averages every two seconds.
    for (int i = 0; i < 200 && most < 15; ++i) {
      const auto value = pressure.Read();
      EXPECT_TRUE(value.has_value());
      most = value.value_or(0);
      poll(nullptr, 0, 50);
    }
    EXPECT_GE(most, 15);
  }
  // The last child's death is known to the group a moment later.
  for (int i = 0; rmdir(group.c_str()) != 0; ++i) {
    ASSERT_LT(i, 200);
    poll(nullptr, 0, 10);
  }
  if (most == 0) GTEST_SKIP() << "the kernel has no PSI";
}

}  // namespace
}  // namespace hugepool::sys
