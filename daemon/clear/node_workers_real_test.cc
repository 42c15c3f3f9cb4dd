// The idle class on the real machine: beside busy processes.
#include <memory>
#include <thread>

#include "daemon/base/mutex.h"
#include "daemon/clear/node_workers.h"
#include "daemon/sys/real_huge_memory.h"
#include "daemon/sys/sched_class.h"
#include "daemon/sys/testing/busy_children.h"
#include "daemon/sys/testing/reserve_pages.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

constexpr NodeId kNode(0);
constexpr PageCount kPages(512);

// A GiB takes some 20 to 40 ms on a machine at rest, and in the normal class
// twice that beside one busy process a CPU.
TEST(NodeWorkersRealTest, StarvesBesideBusyProcessesUntilSomebodyHurries) {
  auto pages = sys::testing::ReservedPages::Reserve(k2M, kPages, kNode);
  if (!pages.ok()) GTEST_SKIP() << "no huge pages: " << pages.status();
  sys::LinuxSchedClass sched;
  if (const absl::Status can = sys::CanLeaveIdleClass(sched); !can.ok()) {
    GTEST_SKIP() << can;
  }
  sys::RealHugeMemory memory(sys::Backend::kHugetlb);
  auto file = *memory.Create(k2M, kPages, kNode);
  ASSERT_TRUE(file->Map(kNode).ok());
  ASSERT_TRUE(file->Populate(Bytes(0), file->size()).ok());

  const sys::testing::BusyChildren busy(1);
  NodeWorkers workers({.threads = 2, .sched = &sched});
  Mutex mu;
  CondVar changed;
  bool done = false;
  std::thread job([&] {
    EXPECT_TRUE(
        workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
    MutexLock lock(&mu);
    done = true;
    changed.Signal();
  });
  constexpr absl::Duration kLong = absl::Milliseconds(400);
  const absl::Time begin = Clock::Real()->Now();
  {
    MutexLock lock(&mu);
    while (!done && Clock::Real()->Now() < begin + kLong) {
      changed.WaitFor(&mu, begin + kLong - Clock::Real()->Now());
    }
    EXPECT_FALSE(done) << "took time that others wanted";
  }
  const absl::Time hurry = Clock::Real()->Now();
  workers.Hurry();
  job.join();
  const absl::Duration rest = Clock::Real()->Now() - hurry;
  EXPECT_LT(rest, kLong) << "a thread was left in the idle class";
  RecordProperty("milliseconds_after_hurry",
                 static_cast<int>(absl::ToInt64Milliseconds(rest)));
}

}  // namespace
}  // namespace hugepool
