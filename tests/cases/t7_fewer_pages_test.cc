// T7 and K3: the kernel has fewer pages than the pools shall own, at the start
// and afterwards.
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/sys/sysfs.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/recount.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

constexpr char kNrHugepages[] = "/proc/sys/vm/nr_hugepages";

// Pages of 2 MiB that this process has promised to itself and does not touch.
class Reservation {
 public:
  explicit Reservation(uint64_t pages) : size_(pages << 21) {
    map_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | (21 << 26), -1, 0);
  }
  ~Reservation() { Drop(); }
  bool ok() const { return map_ != MAP_FAILED; }
  // Uses what was promised; a page that is not there would end the test.
  void Touch() {
    for (size_t at = 0; at < size_; at += 2 << 20) {
      static_cast<volatile char*>(map_)[at] = 1;
    }
  }
  void Drop() {
    if (ok()) munmap(map_, size_);
    map_ = MAP_FAILED;
  }

 private:
  const size_t size_;
  void* map_;
};

// A cgroup that may use so many bytes of 2 MiB pages; in a mount of its own.
class HugetlbCgroup {
 public:
  explicit HugetlbCgroup(uint64_t bytes) {
    char name[] = "/tmp/hpcgXXXXXX";
    if (mkdtemp(name) == nullptr) return;
    mount_ = name;
    if (mount("none", name, "cgroup", 0, "hugetlb") != 0) return;
    mounted_ = true;
    dir_ = absl::StrCat(mount_, "/hugepool-test-", getpid());
    if (mkdir(dir_.c_str(), 0755) != 0 || !Allow(bytes)) dir_.clear();
  }
  ~HugetlbCgroup() {
    // The last process may be a moment in leaving.
    for (int i = 0; i < 200 && !dir_.empty() && rmdir(dir_.c_str()) != 0; ++i) {
      usleep(10000);
    }
    if (mounted_) umount2(mount_.c_str(), MNT_DETACH);
    if (!mount_.empty()) rmdir(mount_.c_str());
  }
  const std::string& dir() const { return dir_; }
  bool Allow(uint64_t bytes) {
    return sys::WriteSmallFile(dir_ + "/hugetlb.2MB.limit_in_bytes",
                               absl::StrCat(bytes))
        .ok();
  }

 private:
  std::string mount_;
  std::string dir_;
  bool mounted_ = false;
};

class T7FewerPagesTest : public CaseTest {
 protected:
  // Until the only pool has so many clean pages and is otherwise at rest.
  v1::PoolStatus WaitForClean(uint64_t pages, absl::Duration within) {
    const absl::Time deadline = absl::Now() + within;
    v1::PoolStatus last;
    while (absl::Now() < deadline) {
      const auto status = daemon_->GetStatus();
      if (status.ok() && status->pools_size() == 1) last = status->pools(0);
      if (last.clean_bytes() == pages << 21 &&
          BytesInBooks(last) == pages << 21) {
        return last;
      }
      poll(nullptr, 0, 5);
    }
    ADD_FAILURE() << "not " << pages
                  << " clean pages: " << last.ShortDebugString();
    return last;
  }
  ProgramResult Health() {
    return RunProgram({RunfilePath("client/hpctl/hpctl"), "--socket",
                       daemon_->dir(), "health", "--ready"});
  }
  // The share of one CPU that the daemon used in the next seconds.
  double CpuShare(absl::Duration during) {
    clockid_t clock = 0;
    timespec before = {};
    timespec after = {};
    if (clock_getcpuclockid(daemon_->pid(), &clock) != 0) return 1;
    clock_gettime(clock, &before);
    const absl::Time from = absl::Now();
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(during)));
    clock_gettime(clock, &after);
    return absl::FDivDuration(
        absl::DurationFromTimespec(after) - absl::DurationFromTimespec(before),
        absl::Now() - from);
  }
  void ExpectIdle() {
    const double share = CpuShare(absl::Seconds(3));
    RecordProperty("cpu_share_while_short", absl::StrCat(share));
    EXPECT_LT(share, 0.02);
  }
};

TEST_F(T7FewerPagesTest, T7ServesWhatThereIsSaysSoAndGrows) {
  if (!HavePages(48)) return;
  const auto had = sys::ReadNumber(kNrHugepages);
  ASSERT_TRUE(had.ok()) << had.status();
  StartDaemon({.config = PoolOf2M(64), .as = UnprivilegedDaemon()});
  ASSERT_NE(daemon_, nullptr);
  const v1::PoolStatus pool = WaitForClean(48, absl::Seconds(10));
  EXPECT_EQ(pool.target_bytes(), 64u << 21);
  EXPECT_NE(pool.shortfall(), "");
  EXPECT_EQ(DifferenceNow(pool), "");
  const ProgramResult health = Health();
  EXPECT_EQ(health.exit_code, 0) << health.errors;
  EXPECT_TRUE(absl::StartsWith(
      health.output,
      "ready, degraded: pool of 2 MiB pages on node 0 has 96 MiB of 128 MiB: "))
      << health.output;
  EXPECT_TRUE(absl::StrContains(daemon_->Log(), "ready, degraded"))
      << daemon_->Log();
  ExpectIdle();
  ExpectServes(48);
  WaitForClean(48, absl::Seconds(10));
  {
    const auto more = SysctlGuard::Set(kNrHugepages, absl::StrCat(*had + 16));
    ASSERT_TRUE(more.ok()) << more.status();
    WaitForClean(64, absl::Seconds(10));
    EXPECT_EQ(Health().output, "ready\n");
    ExpectServes(64);
    EXPECT_TRUE(daemon_->Stop().ok());
  }
  EXPECT_TRUE(pages_->WaitForFree(k2M, PageCount(48)))
      << pages_->Free(k2M).value() << " are free";
}

// At the refill: what was given back was taken by somebody else.
TEST_F(T7FewerPagesTest, T7GrowsAgainWhenOthersLetGo) {
  if (!HavePages(32)) return;
  // Those that it does not see when it starts.
  Reservation others(16);
  ASSERT_TRUE(others.ok());
  others.Touch();
  StartDaemon({.config = PoolOf2M(32), .as = UnprivilegedDaemon()});
  ASSERT_NE(daemon_, nullptr);
  WaitForClean(16, absl::Seconds(10));
  ExpectIdle();
  others.Drop();
  EXPECT_EQ(WaitForClean(32, absl::Seconds(10)).shortfall(), "");
  ExpectServes(32);
  EXPECT_TRUE(daemon_->Stop().ok());
  EXPECT_TRUE(pages_->WaitForFree(k2M, PageCount(32)));
}

// The kernel counts what others have reserved as free until they touch it.
TEST_F(T7FewerPagesTest, K3PagesThatOthersReservedStayTheirs) {
  if (!HavePages(32)) return;
  Reservation others(12);
  ASSERT_TRUE(others.ok());
  StartDaemon({.config = "backend: hugetlb\n"
                         "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                         "pools: [{page_size: 2MiB, target: 64MiB, "
                         "shapes: [2MiB, 16MiB]}]\n"
                         "zeroing: {bandwidth: none}\n",
               .as = UnprivilegedDaemon()});
  ASSERT_NE(daemon_, nullptr);
  const v1::PoolStatus pool = WaitForClean(20, absl::Seconds(10));
  EXPECT_EQ(DifferenceNow(pool), "");
  EXPECT_NE(pool.shortfall(), "");
  ExpectIdle();
  others.Touch();
  others.Drop();
  EXPECT_EQ(WaitForClean(32, absl::Seconds(10)).shortfall(), "");
  EXPECT_TRUE(daemon_->Stop().ok());
  EXPECT_TRUE(pages_->WaitForFree(k2M, PageCount(32)));
}

// A cgroup's limit shows in no counter: populating fails half-way. What it got
// is given back, and smaller extents use the pages.
TEST_F(T7FewerPagesTest, K3APartialBuildIsGivenBackAndTheRestUsed) {
  if (!HavePages(64)) return;
  HugetlbCgroup cgroup(20 << 21);
  if (cgroup.dir().empty())
    GTEST_SKIP() << "no hugetlb cgroup can be made here";
  RunAs as = UnprivilegedDaemon();
  as.cgroups = {cgroup.dir()};
  StartDaemon({.config = "backend: hugetlb\n"
                         "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                         "pools: [{page_size: 2MiB, target: 128MiB, "
                         "shapes: [2MiB, 32MiB]}]\n"
                         "zeroing: {bandwidth: none}\n",
               .as = as});
  ASSERT_NE(daemon_, nullptr);
  const v1::PoolStatus pool = WaitForClean(20, absl::Seconds(10));
  EXPECT_EQ(DifferenceNow(pool), "");
  EXPECT_TRUE(absl::StrContains(pool.shortfall(), "cgroup"))
      << pool.shortfall();
  ExpectIdle();
  ExpectServes(20);
  EXPECT_EQ(DifferenceNow(WaitForClean(20, absl::Seconds(10))), "");
  ASSERT_TRUE(cgroup.Allow(1 << 30));
  EXPECT_EQ(WaitForClean(64, absl::Seconds(15)).shortfall(), "");
  EXPECT_TRUE(daemon_->Stop().ok());
  EXPECT_TRUE(pages_->WaitForFree(k2M, PageCount(64)));
}

}  // namespace
}  // namespace hugepool::testing
