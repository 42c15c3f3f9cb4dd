// A byte in clean memory, put there by somebody who can do everything, is found
// and never lent.
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "daemon/base/unique_fd.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/recount.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

class VerifyTest : public CaseTest {
 protected:
  ProgramResult Verify(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {RunfilePath("client/hpctl/hpctl"),
                                     "--socket", daemon_->dir(), "pool",
                                     "verify"};
    args.insert(args.end(), more.begin(), more.end());
    return RunProgram(args);
  }
  // Writes into `count` extents through dups of the daemon's own descriptors,
  // which is no opening: nobody is told of it.
  int Stain(int count) {
    const UniqueFd daemon(
        static_cast<int>(syscall(SYS_pidfd_open, daemon_->pid(), 0)));
    int stained = 0;
    const std::string dir = "/proc/" + std::to_string(daemon_->pid()) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      struct stat st = {};
      int number = -1;
      if (stained == count ||
          !absl::SimpleAtoi(entry.path().filename().string(), &number) ||
          stat(entry.path().c_str(), &st) != 0 || st.st_size != 2 << 20) {
        continue;
      }
      const UniqueFd fd(
          static_cast<int>(syscall(SYS_pidfd_getfd, daemon.get(), number, 0)));
      void* const map = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE,
                             MAP_SHARED, fd.get(), 0);
      if (map == MAP_FAILED) continue;
      static_cast<char*>(map)[12345 + stained] = 1;
      munmap(map, 2 << 20);
      ++stained;
    }
    return stained;
  }
  void ExpectAllZero() {
    auto client = NewClient();
    const Line got = client->Ask(Acquire2M(8, 10000));
    ASSERT_TRUE(got.ok()) << got;
    EXPECT_EQ(client->Ask(Line("zero")).Number("nonzero", 1), 0u);
  }
};

TEST_F(VerifyTest, CleanMemoryIsClean) {
  if (!StartWithPages(8)) return;
  const ProgramResult all = Verify();
  EXPECT_EQ(all.exit_code, 0) << all.errors;
  EXPECT_EQ(all.output, "verified 16 MiB, 0 bytes not zero\n");
  const ProgramResult one = Verify({"--node", "0", "--page-size", "2M"});
  EXPECT_EQ(one.output, "verified 16 MiB, 0 bytes not zero\n") << one.errors;
  const ProgramResult none = Verify({"--node", "77", "--page-size", "2M"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(none.errors, "there is no pool"))
      << none.errors;
}

TEST_F(VerifyTest, AStrayByteIsFoundReportedAndReplaced) {
  if (!StartWithPages(8)) return;
  ASSERT_EQ(Stain(2), 2);
  const ProgramResult found = Verify();
  EXPECT_EQ(found.exit_code, 1) << found.errors;
  EXPECT_EQ(found.output, "verified 16 MiB, 2 bytes not zero\n");
  EXPECT_EQ(WaitForAllClean(daemon_.get()), "");
  const auto status = daemon_->GetStatus();
  EXPECT_EQ(status->pools(0).stray_bytes(), 2u);
  bool warned = false;
  for (const std::string& warning : status->warnings()) {
    warned |= absl::StrContains(warning, "2 bytes of clean memory");
  }
  EXPECT_TRUE(warned) << status->ShortDebugString();
  EXPECT_EQ(Verify().output, "verified 16 MiB, 0 bytes not zero\n");
  ExpectAllZero();
}

TEST_F(VerifyTest, WithVerifyAtGrantAStrayByteIsNeverLent) {
  if (!HavePages(8)) return;
  StartDaemon({.config = PoolOf2M(8) + "verify: {at_grant: true}\n",
               .as = UnprivilegedDaemon()});
  ASSERT_EQ(Stain(3), 3);
  ExpectAllZero();
  EXPECT_EQ(daemon_->GetStatus()->pools(0).stray_bytes(), 3u);
}

TEST_F(VerifyTest, SamplesFindItInTheEnd) {
  if (!HavePages(8)) return;
  StartDaemon({.config = PoolOf2M(8) + "verify: {interval: 1s}\n",
               .as = UnprivilegedDaemon()});
  ASSERT_EQ(Stain(1), 1);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (daemon_->GetStatus()->pools(0).stray_bytes() == 0 &&
         absl::Now() < deadline) {
    poll(nullptr, 0, 20);
  }
  EXPECT_EQ(daemon_->GetStatus()->pools(0).stray_bytes(), 1u);
  EXPECT_EQ(WaitForAllClean(daemon_.get()), "");
  ExpectAllZero();
}

}  // namespace
}  // namespace hugepool::testing
