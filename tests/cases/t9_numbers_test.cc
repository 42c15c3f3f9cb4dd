// T9: what hpctl prints is what sysfs says, for each size and node.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/sys/sysfs.h"
#include "daemon/sys/sysfs_kernel_pools.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cases/case_test.h"
#include "tests/harness/recount.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

using nlohmann::json;

uint64_t Sysfs(const json& pool, const char* name) {
  const auto pages = sys::ReadNumber(
      absl::StrCat("/sys/devices/system/node/node", pool.value("node", 0u),
                   "/hugepages/hugepages-",
                   pool.value("page_size", uint64_t{0}) >> 10, "kB/", name));
  return pages.ok() ? *pages * pool.value("page_size", uint64_t{0})
                    : UINT64_MAX;
}

class T9NumbersTest : public CaseTest {
 protected:
  json Status() {
    const ProgramResult shown =
        RunProgram({RunfilePath("client/hpctl/hpctl"), "--socket",
                    daemon_->dir(), "-o", "json", "status"});
    EXPECT_EQ(shown.exit_code, 0) << shown.errors;
    return json::parse(shown.output, nullptr, false);
  }
};

TEST_F(T9NumbersTest, HpctlShowsWhatSysfsSaysPerSizeAndNode) {
  if (!HavePages(16, 1)) return;
  StartDaemon({.config = "backend: hugetlb\n"
                         "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                         "pools: [{page_size: 2MiB, target: 24MiB}, "
                         "{page_size: 1GiB, target: 1GiB}]\n",
               .as = UnprivilegedDaemon()});
  auto client = NewClient();
  ASSERT_TRUE(client->Ask(Acquire2M(3)).ok());
  ASSERT_EQ(WaitForBalance(daemon_.get(), absl::Seconds(10)), "");
  const json status = Status();
  ASSERT_TRUE(status.contains("pools")) << status;
  ASSERT_EQ(status["pools"].size(), 2u) << status;
  for (const json& pool : status["pools"]) {
    const json& kernel = pool["kernel"];
    EXPECT_EQ(kernel.value("total_bytes", uint64_t{1}),
              Sysfs(pool, "nr_hugepages"));
    EXPECT_EQ(kernel.value("free_bytes", uint64_t{0}),
              Sysfs(pool, "free_hugepages"));
    EXPECT_EQ(kernel.value("surplus_bytes", uint64_t{0}),
              Sysfs(pool, "surplus_hugepages"));
    EXPECT_EQ(pool.value("clean_bytes", uint64_t{0}) +
                  pool.value("held_bytes", uint64_t{0}),
              Sysfs(pool, "nr_hugepages") - Sysfs(pool, "free_hugepages"));
  }
}

// N41, N60: sizes are those of the directories, whatever they are.
TEST_F(T9NumbersTest, N41PoolsAreOfTheSizesThatSysfsNames) {
  if (!HavePages(4)) return;
  StartDaemon({.config = "backend: hugetlb\n"
                         "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                         "pools: [{page_size: all}]\n",
               .as = UnprivilegedDaemon()});
  const auto status = daemon_->GetStatus();
  ASSERT_TRUE(status.ok());
  std::vector<uint64_t> seen;
  for (const auto& pool : status->pools()) seen.push_back(pool.page_size());
  std::vector<uint64_t> wanted;
  const sys::SysfsKernelPools kernel;
  for (const PageSize size : kernel.page_sizes()) {
    wanted.push_back(size.bytes().value());
  }
  std::sort(seen.begin(), seen.end());
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(seen, wanted);
}

}  // namespace
}  // namespace hugepool::testing
