#include "daemon/reclaim/holder_news.h"

#include <gtest/gtest.h>

#include "daemon/reclaim/reclaim_fixture.h"

namespace hugepool {
namespace {

using Event = sys::HolderWatch::Event;

class HolderNewsTest : public ReclaimFixture {
 protected:
  HolderNewsTest() {
    while (auto build = pool_->TakeWork(Now(), std::nullopt)) {
      (void)pool_->Settle(*std::move(build), WorkOutcome::kDone, "", Now());
    }
    slot_ = Take(false, /*memory=*/true);
    pool_->Held(slot_);
    Probe(WorkOutcome::kBusy);
    news_.Add(kInode, pool_.get(), table_->id(slot_));
  }
  void Probe(WorkOutcome outcome) {
    auto probe = pool_->TakeQuickWork(Now());
    ASSERT_TRUE(probe.has_value());
    (void)pool_->Settle(*std::move(probe), outcome, "", Now());
  }
  bool HasWork() {
    return pool_->NextLook() <= Now();
  }

  static constexpr sys::InodeId kInode{4711};
  SlotId slot_;
};

TEST_F(HolderNewsTest, AClosingWakesTheStewards) {
  news_.On(Event{.inode = kInode, .opened = true});
  EXPECT_EQ(wakes_, 0);
  EXPECT_FALSE(HasWork());
  news_.On(Event{.inode = kInode, .closed = true});
  EXPECT_EQ(wakes_, 1);
  EXPECT_TRUE(HasWork());
}

// Its holder may have punched pages.
TEST_F(HolderNewsTest, ChangesHaveItsPagesCounted) {
  news_.On(Event{.inode = kInode, .changed = true});
  EXPECT_EQ(wakes_, 1);
  auto count = pool_->TakeQuickWork(Now());
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->kind, WorkKind::kSplit);
  EXPECT_TRUE(count->runs.empty());
  (void)pool_->Settle(*std::move(count), WorkOutcome::kDone, "", Now());
  EXPECT_FALSE(pool_->TakeQuickWork(Now()).has_value());
}

TEST_F(HolderNewsTest, UnknownAndForgottenInodesAreIgnored) {
  news_.On(Event{.inode = sys::InodeId(1), .closed = true});
  news_.Remove(kInode);
  news_.On(Event{.inode = kInode, .closed = true});
  EXPECT_EQ(wakes_, 0);
  EXPECT_FALSE(HasWork());
}

TEST_F(HolderNewsTest, KnowsWhichInodesHaveEnded) {
  EXPECT_FALSE(news_.Gone(kInode));
  news_.On(Event{.inode = kInode, .closed = true});
  EXPECT_FALSE(news_.Gone(kInode));
  news_.On(Event{.inode = kInode, .deleted = true});
  EXPECT_TRUE(news_.Gone(kInode));
  EXPECT_TRUE(news_.Gone(sys::InodeId(1))) << "never heard of";
  // The number comes again with another extent.
  news_.Add(kInode, pool_.get(), table_->id(slot_));
  EXPECT_FALSE(news_.Gone(kInode));
}

TEST_F(HolderNewsTest, NewsOfAnExtentThatEndedWakesNobody) {
  news_.Add(kInode, pool_.get(), ExtentId(table_->id(slot_).value() +
                                          (uint64_t{1} << 32)));
  news_.On(Event{.inode = kInode, .closed = true});
  EXPECT_EQ(wakes_, 0);
}

TEST_F(HolderNewsTest, AnOverflowLetsEachPoolLookAtEverythingOnce) {
  news_.Add(sys::InodeId(12), pool_.get(), ExtentId(1));
  news_.On(Event{.overflow = true});
  EXPECT_EQ(wakes_, 1) << "one pool";
  EXPECT_TRUE(HasWork());
}

}  // namespace
}  // namespace hugepool
