#include "daemon/lease/granter.h"

#include <fcntl.h>

#include <cerrno>
#include <numeric>

#include <gtest/gtest.h>

#include "daemon/base/errno_status.h"
#include "daemon/sys/fake_huge_memory.h"

namespace hugepool {
namespace {

constexpr NodeId kNode{0};
constexpr SessionId kSession{5};

class GranterTest : public testing::Test, protected GrantSender {
 protected:
  GranterTest() { kernel_.AddPages(kNode, k2M, PageCount(600)); }

  absl::Status SendGrant(SessionId session, GrantFrame frame) override {
    EXPECT_EQ(session, kSession);
    if (frame.part == fail_part_) return absl::UnavailableError("gone");
    frames_.push_back(std::move(frame));
    return absl::OkStatus();
  }
  void SendRevokeNotice(SessionId, LeaseId, absl::Duration) override {}
  // A lease of `extents` populated extents of one page, as a probe left them.
  Lease Make(uint32_t extents) {
    Lease lease;
    lease.id = LeaseId(9);
    lease.owner.uid = 1000;
    for (uint32_t i = 1; i <= extents; ++i) {
      auto file = *memory_.Create(k2M, PageCount(1), kNode);
      EXPECT_TRUE(file->Map(kNode).ok());
      EXPECT_TRUE(file->Populate(Bytes(0), MiB(2)).ok());
      file->Unmap();
      EXPECT_EQ(file->Probe(), sys::HolderAnswer::kFree);
      files_.Put(SlotId(i), std::move(file));
      TakenExtent e;
      e.slot = SlotId(i);
      e.size = MiB(2);
      lease.extents.push_back(e);
    }
    return lease;
  }
  absl::StatusOr<uint32_t> Grant(const Lease& lease) {
    return granter_.Grant(lease, kSession, "request");
  }
  sys::HugeFile& File(uint32_t slot) { return *files_.Get(SlotId(slot)); }

  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
  ExtentFiles files_{600};
  Granter granter_{&files_, this, nullptr};
  std::vector<GrantFrame> frames_;
  uint32_t fail_part_ = ~0u;
};

TEST_F(GranterTest, SendsAnOpenDescriptionOfEveryExtentInOrder) {
  Lease lease = Make(3);
  lease.generation = 4;
  EXPECT_EQ(*Grant(lease), 1u);
  ASSERT_EQ(frames_.size(), 1u);
  GrantFrame& f = frames_[0];
  EXPECT_EQ(f.request_id, "request");
  EXPECT_EQ(f.lease, lease.id);
  EXPECT_EQ(f.generation, 4u);
  EXPECT_EQ(f.part, 0u);
  EXPECT_EQ(f.parts, 1u);
  EXPECT_EQ(f.first_extent, 0u);
  ASSERT_EQ(f.fds.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(kernel_.AdoptHolder(std::move(f.fds[i])).inode(),
              File(i + 1).inode());
  }
}

TEST_F(GranterTest, ManyExtentsGoInFramesOf253) {
  EXPECT_EQ(*Grant(Make(600)), 3u);
  ASSERT_EQ(frames_.size(), 3u);
  const size_t sizes[] = {253, 253, 94};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frames_[i].fds.size(), sizes[i]);
    EXPECT_EQ(frames_[i].part, i);
    EXPECT_EQ(frames_[i].parts, 3u);
    EXPECT_EQ(frames_[i].first_extent, i * 253);
  }
}

// N8: a seal that cannot be set is an error, and nothing is sent.
TEST_F(GranterTest, AFailedSealIsAnError) {
  const Lease lease = Make(2);
  kernel_.FailNext(sys::FakeKernel::Op::kSeal, EBUSY, /*after=*/1);
  EXPECT_EQ(ErrnoOf(Grant(lease).status()), EBUSY);
  EXPECT_TRUE(frames_.empty());
  for (uint32_t i = 1; i <= 2; ++i) {
    EXPECT_EQ(kernel_.HolderCount(File(i).inode()), 0u)
        << "descriptors opened on the way are closed";
  }
}

TEST_F(GranterTest, SealsBeforeAnybodySeesTheFile) {
  Lease lease = Make(1);
  ASSERT_TRUE(Grant(lease).ok());
  EXPECT_EQ(File(1).Facts()->seals, F_SEAL_GROW | F_SEAL_SEAL);
  auto holder = kernel_.AdoptHolder(std::move(frames_[0].fds[0]));
  EXPECT_FALSE(holder.AddSeals(F_SEAL_SHRINK));
  EXPECT_FALSE(holder.AddSeals(F_SEAL_WRITE));
  EXPECT_TRUE(holder.Truncate(0)) << "shrinking was not sealed";
}

TEST_F(GranterTest, ASealedLeaseCannotShrink) {
  Lease lease = Make(1);
  lease.sealed = true;
  ASSERT_TRUE(Grant(lease).ok());
  EXPECT_EQ(File(1).Facts()->seals,
            F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  EXPECT_FALSE(kernel_.AdoptHolder(std::move(frames_[0].fds[0])).Truncate(0));
}

TEST_F(GranterTest, OnlyAReopenableLeaseGetsTheInode) {
  Lease lease = Make(1);
  ASSERT_TRUE(Grant(lease).ok());
  auto holder = kernel_.AdoptHolder(std::move(frames_[0].fds[0]), 1000);
  EXPECT_FALSE(holder.Reopen().has_value());
  EXPECT_EQ(File(1).Facts()->uid, sys::FakeKernel::kDaemonUid);
  (void)files_.Remove(SlotId(1));
  frames_.clear();
  lease = Make(1);
  lease.reopenable = true;
  ASSERT_TRUE(Grant(lease).ok());
  EXPECT_EQ(File(1).Facts()->uid, 1000u);
  EXPECT_TRUE(kernel_.AdoptHolder(std::move(frames_[0].fds[0]), 1000)
                  .Reopen()
                  .has_value());
}

TEST_F(GranterTest, AnExtentOpenedSinceTheProbeAbortsTheGrant) {
  const Lease lease = Make(2);
  ASSERT_TRUE(File(2).GiveInode(1000, 1000).ok());
  auto thief = kernel_.OpenByPath(File(2).inode(), 1000);
  ASSERT_TRUE(thief.has_value());
  EXPECT_EQ(Grant(lease).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(frames_.empty());
}

TEST_F(GranterTest, AnAttachmentNeitherSealsNorGivesTheInode) {
  Lease lease = Make(1);
  ASSERT_TRUE(Grant(lease).ok());
  lease.phase = LeasePhase::kHeld;
  lease.reopenable = true;
  kernel_.FailNext(sys::FakeKernel::Op::kSeal, EBUSY);
  kernel_.FailNext(sys::FakeKernel::Op::kChown, EPERM);
  EXPECT_TRUE(Grant(lease).ok());
  EXPECT_EQ(kernel_.HolderCount(File(1).inode()), 2u)
      << "another description, no dup";
}

TEST_F(GranterTest, WhatWasLetGoCannotBeSentAgain) {
  Lease lease = Make(1);
  (void)files_.Remove(SlotId(1));
  EXPECT_EQ(Grant(lease).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GranterTest, AFailingChannelEndsTheGrantAndTheRestIsClosed) {
  fail_part_ = 1;
  EXPECT_EQ(Grant(Make(600)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(frames_.size(), 1u);
  EXPECT_EQ(kernel_.HolderCount(File(1).inode()), 1u) << "on its way";
  EXPECT_EQ(kernel_.HolderCount(File(254).inode()), 0u);
  EXPECT_EQ(kernel_.HolderCount(File(600).inode()), 0u);
}

}  // namespace
}  // namespace hugepool
