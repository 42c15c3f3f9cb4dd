#include "daemon/clear/node_workers.h"

#include <cerrno>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/clear/zero_routines.h"
#include "daemon/sys/fake_huge_memory.h"

namespace hugepool {
namespace {

constexpr NodeId kNode(0);

class NodeWorkersTest : public testing::TestWithParam<int> {
 protected:
  NodeWorkersTest() { kernel_.AddPages(kNode, k2M, PageCount(512)); }
  std::unique_ptr<sys::HugeFile> File(uint64_t pages) {
    auto file = memory_.Create(k2M, PageCount(pages), kNode);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Map(kNode).ok());
    return *std::move(file);
  }
  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
};

TEST_P(NodeWorkersTest, PopulatesEveryPage) {
  NodeWorkers workers({}, GetParam());
  for (uint64_t pages : {1, 15, 16, 17, 255, 300}) {
    auto file = File(pages);
    ASSERT_TRUE(workers.Populate(*file, Bytes(0), file->size()).ok());
    EXPECT_EQ(file->Facts()->allocated, file->size()) << pages;
  }
}

TEST_P(NodeWorkersTest, ZeroesEveryByteAndOnlyTheSpan) {
  NodeWorkers workers({}, GetParam());
  auto file = File(40);
  ASSERT_TRUE(workers.Populate(*file, Bytes(0), file->size()).ok());
  {
    auto holder = kernel_.AdoptHolder(*file->OpenForHolder());
    for (uint64_t p = 0; p < 40; ++p) holder.Write(p, 0xA5);
  }
  ASSERT_TRUE(workers.Zero(*file, Bytes(0), MiB(78)).ok());
  EXPECT_FALSE(*file->AllZero());  // the last page was not in the span
  ASSERT_TRUE(workers.Zero(*file, MiB(78), file->size()).ok());
  EXPECT_TRUE(*file->AllZero());
}

TEST_P(NodeWorkersTest, ReportsTheFailureOfAnyPiece) {
  NodeWorkers workers({}, GetParam());
  auto file = File(300);
  kernel_.FailNextPopulateAfter(PageCount(100));
  EXPECT_EQ(workers.Populate(*file, Bytes(0), file->size()).code(),
            absl::StatusCode::kResourceExhausted);
  // The workers are fit for the next job.
  EXPECT_TRUE(workers.Populate(*file, Bytes(0), file->size()).ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, NodeWorkersTest, testing::Values(1, 2, 4));

TEST(ZeroNonTemporal, WritesZerosOverTheSpanAndNoFurther) {
  constexpr size_t kSize = 4096;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, kSize));
  for (size_t i = 0; i < kSize; ++i) memory[i] = std::byte{0xff};
  ZeroNonTemporal(memory + 64, kSize - 128);
  for (size_t i = 0; i < kSize; ++i) {
    const bool inside = i >= 64 && i < kSize - 64;
    ASSERT_EQ(memory[i], inside ? std::byte{0} : std::byte{0xff}) << i;
  }
  std::free(memory);
}

}  // namespace
}  // namespace hugepool
