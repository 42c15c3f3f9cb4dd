#include "daemon/sys/linux_topology.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/sys/testing/fake_tree.h"

namespace hugepool::sys {
namespace {

class LinuxTopologyTest : public ::testing::Test {
 protected:
  void Node(int id, const std::string& kib, const std::string& cpus,
            const std::string& distances) {
    const std::string dir =
        "/sys/devices/system/node/node" + std::to_string(id);
    const std::string node = "Node " + std::to_string(id);
    tree_.Put(dir + "/meminfo", "\n" + node + " MemTotal:       " + kib +
                                    " kB\n" + node + " MemFree:  1 kB");
    tree_.Put(dir + "/cpulist", cpus);
    tree_.Put(dir + "/distance", distances);
  }
  void Status(const std::string& mems, const std::string& cpus) {
    tree_.Put("/proc/self/status", "Name:\thugepoold\nCpus_allowed_list:\t" +
                                       cpus + "\nMems_allowed:\t00000003\n" +
                                       "Mems_allowed_list:\t" + mems);
  }
  std::unique_ptr<LinuxTopology> Read() {
    auto topology = LinuxTopology::Read(
        {.sysfs = tree_.Path("/sys"), .proc = tree_.Path("/proc")});
    EXPECT_TRUE(topology.ok()) << topology.status();
    return *std::move(topology);
  }

  testing::FakeTree tree_;
};

using Cpus = std::vector<int>;

TEST_F(LinuxTopologyTest, SparseIdsAndNodesWithoutMemory) {
  Node(0, "1048576", "0-1", "10 20 40");
  Node(2, "0", "2-3", "20 10 20");
  Node(7, "2097152", "4,6", "40 20 10");
  Status("0,2,7", "0-7");
  const auto topology = Read();
  ASSERT_EQ(topology->nodes().size(), 2u);
  EXPECT_EQ(topology->nodes()[0].id, NodeId(0));
  EXPECT_EQ(topology->nodes()[1].id, NodeId(7));
  EXPECT_EQ(topology->nodes()[1].memory, GiB(2));
  EXPECT_EQ(topology->nodes()[1].cpus, (Cpus{4, 6}));
  EXPECT_EQ(topology->nodes()[1].worker_cpus, (Cpus{4, 6}));
  EXPECT_EQ(topology->total_memory(), GiB(3));
}

TEST_F(LinuxTopologyTest, N14NodesOutsideMemsAllowedAreMarked) {
  Node(0, "1024", "0-1", "10 20");
  Node(1, "1024", "2-3", "20 10");
  Status("0", "0-3");
  const auto topology = Read();
  EXPECT_TRUE(topology->nodes()[0].allowed);
  EXPECT_FALSE(topology->nodes()[1].allowed);
}

TEST_F(LinuxTopologyTest, N15NodeWithoutCpusIsServedByTheNearest) {
  Node(0, "1024", "0-1", "10 20 30");
  Node(1, "1024", "2-3", "20 10 17");
  Node(4, "1024", "", "30 17 10");
  Status("0-1,4", "0-3");
  const auto topology = Read();
  EXPECT_TRUE(topology->nodes()[2].cpus.empty());
  EXPECT_EQ(topology->nodes()[2].worker_cpus, (Cpus{2, 3}));
}

TEST_F(LinuxTopologyTest, CpusThatWeMayNotUseServeNobody) {
  Node(0, "1024", "0-3", "10 20");
  Node(1, "1024", "4-7", "20 10");
  Status("0-1", "2-3");
  const auto topology = Read();
  EXPECT_EQ(topology->nodes()[0].worker_cpus, (Cpus{2, 3}));
  EXPECT_EQ(topology->nodes()[1].worker_cpus, (Cpus{2, 3}));
  EXPECT_EQ(topology->nodes()[1].cpus, (Cpus{4, 5, 6, 7}));
}

TEST_F(LinuxTopologyTest, KernelWithoutNumaIsOneNode) {
  tree_.Put("/sys/devices/system/cpu/online", "0-1");
  tree_.Put("/proc/meminfo", "MemTotal:       4096 kB\nMemFree: 1 kB");
  tree_.Put("/proc/self/status", "Name:\thugepoold");
  const auto topology = Read();
  ASSERT_EQ(topology->nodes().size(), 1u);
  EXPECT_EQ(topology->nodes()[0].id, NodeId(0));
  EXPECT_EQ(topology->nodes()[0].worker_cpus, (Cpus{0, 1}));
  EXPECT_TRUE(topology->nodes()[0].allowed);
}

TEST_F(LinuxTopologyTest, NothingThereIsAnError) {
  EXPECT_FALSE(LinuxTopology::Read(
                   {.sysfs = tree_.Path("/sys"), .proc = tree_.Path("/proc")})
                   .ok());
}

TEST(LinuxTopologyOfThisMachine, HasANodeWithMemoryAndCpus) {
  const auto topology = LinuxTopology::Read();
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_FALSE((*topology)->nodes().empty());
  EXPECT_FALSE((*topology)->nodes()[0].worker_cpus.empty());
  EXPECT_GT((*topology)->total_memory(), MiB(64));
}

}  // namespace
}  // namespace hugepool::sys
