#include "daemon/extent/extent_files.h"

#include <gtest/gtest.h>

#include "daemon/sys/fake_huge_memory.h"

namespace hugepool {
namespace {

class ExtentFilesTest : public testing::Test {
 protected:
  ExtentFilesTest() { kernel_.AddPages(NodeId(0), k2M, PageCount(4)); }
  std::unique_ptr<sys::HugeFile> NewFile() {
    return *memory_.Create(k2M, PageCount(1), NodeId(0));
  }

  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
  ExtentFiles files_{2};
};

TEST_F(ExtentFilesTest, HoldsOneFileASlot) {
  EXPECT_EQ(files_.capacity(), 2u);
  EXPECT_EQ(files_.Get(SlotId(2)), nullptr);
  auto file = NewFile();
  sys::HugeFile* raw = file.get();
  EXPECT_EQ(&files_.Put(SlotId(2), std::move(file)), raw);
  EXPECT_EQ(files_.Get(SlotId(2)), raw);
  EXPECT_EQ(files_.Get(SlotId(1)), nullptr);
}

TEST_F(ExtentFilesTest, RemovingHandsTheFileOverAndItsEndClosesIt) {
  files_.Put(SlotId(1), NewFile());
  auto file = files_.Remove(SlotId(1));
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(files_.Get(SlotId(1)), nullptr);
  EXPECT_EQ(kernel_.InodeCount(), 1u);
  file.reset();
  EXPECT_EQ(kernel_.InodeCount(), 0u);
  EXPECT_EQ(files_.Remove(SlotId(1)), nullptr);
}

using ExtentFilesDeathTest = ExtentFilesTest;

TEST_F(ExtentFilesDeathTest, ASecondFileForASlotDies) {
  files_.Put(SlotId(1), NewFile());
  EXPECT_DEATH(files_.Put(SlotId(1), NewFile()), "a slot has one file");
}

}  // namespace
}  // namespace hugepool
