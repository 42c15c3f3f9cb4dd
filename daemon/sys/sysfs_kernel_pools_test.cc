#include "daemon/sys/sysfs_kernel_pools.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/testing/fake_tree.h"

namespace hugepool::sys {
namespace {

class SysfsKernelPoolsTest : public ::testing::Test {
 protected:
  void HostPool(const std::string& kib, const std::string& reserved = "0") {
    const std::string dir = "/kernel/mm/hugepages/hugepages-" + kib + "kB";
    tree_.Put(dir + "/nr_hugepages", "9");
    tree_.Put(dir + "/free_hugepages", "8");
    tree_.Put(dir + "/surplus_hugepages", "0");
    tree_.Put(dir + "/resv_hugepages", reserved);
  }
  void NodePool(int node, const std::string& kib, const std::string& total,
                const std::string& free) {
    const std::string dir = "/devices/system/node/node" + std::to_string(node) +
                            "/hugepages/hugepages-" + kib + "kB";
    tree_.Put(dir + "/nr_hugepages", total);
    tree_.Put(dir + "/free_hugepages", free);
    tree_.Put(dir + "/surplus_hugepages", "1");
  }
  SysfsKernelPools Pools() { return SysfsKernelPools(tree_.Path("")); }

  testing::FakeTree tree_;
};

std::vector<PageSize> Sizes(const std::vector<Bytes>& sizes) {
  std::vector<PageSize> result;
  for (const Bytes size : sizes) result.push_back(*PageSize::FromBytes(size));
  return result;
}

// T9: with default_hugepagesz=1G, /proc/meminfo speaks of 1G pages only. Both
// sizes are here, each with its own numbers.
TEST_F(SysfsKernelPoolsTest, T9DefaultSizeMakesNoDifference) {
  HostPool("2048");
  HostPool("1048576");
  NodePool(0, "2048", "512", "500");
  NodePool(0, "1048576", "2", "1");
  const auto pools = Pools();
  EXPECT_EQ(pools.page_sizes(), (std::vector<PageSize>{k1G, k2M}));
  EXPECT_EQ(pools.Read(NodeId(0), k2M)->total, PageCount(512));
  EXPECT_EQ(pools.Read(NodeId(0), k2M)->free, PageCount(500));
  EXPECT_EQ(pools.Read(NodeId(0), k2M)->surplus, PageCount(1));
  EXPECT_EQ(pools.Read(NodeId(0), k1G)->free, PageCount(1));
}

TEST_F(SysfsKernelPoolsTest, N41S390HasPagesOf1M) {
  HostPool("1024");
  NodePool(0, "1024", "7", "7");
  const auto pools = Pools();
  EXPECT_EQ(pools.page_sizes(), Sizes({MiB(1)}));
  EXPECT_EQ(pools.Read(NodeId(0), pools.page_sizes()[0])->total, PageCount(7));
}

TEST_F(SysfsKernelPoolsTest, N60Arm64SizesOf64KGranule) {
  for (const char* kib : {"64", "2048", "524288", "16777216"}) HostPool(kib);
  EXPECT_EQ(Pools().page_sizes(), Sizes({GiB(16), MiB(512), MiB(2), KiB(64)}));
}

TEST_F(SysfsKernelPoolsTest, OtherNamesAreNoSizes) {
  for (const char* kib : {"2048", "", "x", "-1", "3000", "99999999999999999999",
                          "18014398509481984"}) {
    HostPool(kib);
  }
  EXPECT_EQ(Pools().page_sizes(), Sizes({MiB(2)}));
}

TEST_F(SysfsKernelPoolsTest, N6ReserveBelowZeroIsAnAnomaly) {
  HostPool("2048", "18446744073709551614");
  NodePool(0, "2048", "8", "4");
  const auto counters = Pools().Read(NodeId(0), k2M);
  ASSERT_TRUE(counters.ok()) << counters.status();
  EXPECT_TRUE(counters->anomaly);
  EXPECT_EQ(counters->reserved, PageCount(0));
  EXPECT_EQ(counters->total, PageCount(8));
}

TEST_F(SysfsKernelPoolsTest, SparseNodesAndUnknownOnes) {
  HostPool("2048");
  NodePool(3, "2048", "8", "4");
  const auto pools = Pools();
  EXPECT_EQ(pools.Read(NodeId(3), k2M)->total, PageCount(8));
  for (const NodeId node : {NodeId(0), NodeId(1)}) {
    EXPECT_EQ(pools.Read(node, k2M).status().code(),
              absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(pools.Read(NodeId(3), k1G).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SysfsKernelPoolsTest, SetTotalReadsBack) {
  HostPool("2048");
  NodePool(0, "2048", "512", "4");
  auto pools = Pools();
  const auto now = pools.SetTotal(NodeId(0), k2M, PageCount(33));
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(*now, PageCount(33));
  ASSERT_TRUE(pools.OpenForWriting().ok());
  EXPECT_EQ(*pools.SetTotal(NodeId(0), k2M, PageCount(44)), PageCount(44));
}

TEST_F(SysfsKernelPoolsTest, RefusalsNameTheFileAndKeepTheErrno) {
  HostPool("2048");
  NodePool(0, "2048", "512", "4");
  const std::string file = tree_.Path(
      "/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages");
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  auto pools = Pools();
  const auto status = pools.SetTotal(NodeId(0), k2M, PageCount(1)).status();
  EXPECT_EQ(ErrnoOf(status), EISDIR);
  EXPECT_TRUE(absl::StrContains(status.message(), "nr_hugepages")) << status;
  EXPECT_EQ(ErrnoOf(pools.OpenForWriting()), EISDIR);
}

TEST_F(SysfsKernelPoolsTest, GarbageIsDataLoss) {
  HostPool("2048");
  NodePool(0, "2048", "many", "4");
  EXPECT_EQ(Pools().Read(NodeId(0), k2M).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(SysfsKernelPoolsTest, KernelWithoutNumaHasTheHostsCounters) {
  HostPool("2048");
  const auto pools = Pools();
  EXPECT_EQ(pools.Read(NodeId(0), k2M)->total, PageCount(9));
  EXPECT_FALSE(pools.Read(NodeId(1), k2M).ok());
}

TEST_F(SysfsKernelPoolsTest, NoHugePagesAtAll) {
  EXPECT_TRUE(Pools().page_sizes().empty());
}

}  // namespace
}  // namespace hugepool::sys
