#include "client/internal/nearest_memory.h"

#include "daemon/sys/testing/fake_tree.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using sys::testing::FakeTree;

TEST(NearestMemoryTest, ANodeWithMemoryIsItsOwnNearest) {
  FakeTree tree;
  tree.Put("/online", "0-1");
  tree.Put("/has_memory", "0-1");
  tree.Put("/node0/distance", "10 20");
  tree.Put("/node1/distance", "20 10");
  const NearestMemory nearest(tree.Path(""));
  EXPECT_EQ(nearest.To(NodeId(0)), NodeId(0));
  EXPECT_EQ(nearest.To(NodeId(1)), NodeId(1));
}

TEST(NearestMemoryTest, N15ANodeWithoutMemoryHasTheNearestByDistance) {
  FakeTree tree;
  tree.Put("/online", "0-2");
  tree.Put("/has_memory", "1-2");
  tree.Put("/node0/distance", "10 40 15");
  const NearestMemory nearest(tree.Path(""));
  EXPECT_EQ(nearest.To(NodeId(0)), NodeId(2));
  EXPECT_EQ(nearest.To(NodeId(1)), NodeId(1));
}

// There is a figure for each node that is online, not for each number.
TEST(NearestMemoryTest, N15DistancesFollowSparseIds) {
  FakeTree tree;
  tree.Put("/online", "0,4,7");
  tree.Put("/has_memory", "4,7");
  tree.Put("/node0/distance", "10 30 12");
  const NearestMemory nearest(tree.Path(""));
  EXPECT_EQ(nearest.To(NodeId(0)), NodeId(7));
}

TEST(NearestMemoryTest, OfTwoThatAreAsNearTheFirst) {
  FakeTree tree;
  tree.Put("/online", "0-2");
  tree.Put("/has_memory", "0,2");
  tree.Put("/node1/distance", "20 10 20");
  EXPECT_EQ(NearestMemory(tree.Path("")).To(NodeId(1)), NodeId(0));
}

TEST(NearestMemoryTest, WithoutSysfsANodeIsItself) {
  FakeTree tree;
  EXPECT_EQ(NearestMemory(tree.Path("/none")).To(NodeId(3)), NodeId(3));
  // No row, or one that is cut short, or not numbers.
  tree.Put("/online", "0-3");
  tree.Put("/has_memory", "3");
  tree.Put("/node1/distance", "20 10");
  tree.Put("/node2/distance", "far away");
  const NearestMemory nearest(tree.Path(""));
  for (uint32_t id = 0; id < 4; ++id) {
    EXPECT_EQ(nearest.To(NodeId(id)), NodeId(id));
  }
}

}  // namespace
}  // namespace hugepool::client
