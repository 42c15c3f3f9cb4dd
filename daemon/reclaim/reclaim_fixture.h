// One pool, its worker and the model of the kernel, for tests.
#ifndef HUGEPOOL_DAEMON_RECLAIM_RECLAIM_FIXTURE_H_
#define HUGEPOOL_DAEMON_RECLAIM_RECLAIM_FIXTURE_H_

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "daemon/reclaim/extent_worker.h"
#include "daemon/reclaim/holder_news.h"
#include "daemon/sys/fake_huge_memory.h"
#include "daemon/sys/fd_vault.h"

namespace hugepool {

class ReclaimFixture : public testing::Test {
 protected:
  static constexpr NodeId kNode{1};
  static constexpr NodeId kFar{2};
  static constexpr DomainId kDomain{1};
  static constexpr LeaseId kLease{7};

  ReclaimFixture() { Make(PoolConfig{}); }
  void Make(PoolConfig c) {
    kernel_.AddPages(kNode, k2M, PageCount(8));
    kernel_.AddPages(kFar, k2M, PageCount(8));
    c.node = kNode;
    c.target = c.high = PageCount(8);
    if (c.shapes.empty()) c.shapes = {PageCount(4)};
    table_ = *ExtentTable::Create(16);
    pool_ = std::make_unique<Pool>(c, table_.get());
  }
  ExtentWorker::Deps Deps() {
    return {&memory_, &watch_, &vault_, &files_, &news_, &engine_,
            /*share_page_tables=*/true};
  }
  absl::Time Now() const { return clock_.Now(); }
  SlotId Take(bool in_place = false, bool memory = false) {
    GrantTerms terms;
    terms.lease = kLease;
    terms.domain = kDomain;
    terms.in_place = in_place;
    terms.memory_lifetime = memory;
    MutexLock lock(&pool_->mu());
    return pool_->TakeLocked({PageCount(4)}, terms, 1, true).front();
  }
  // As the Granter does it, and the client: a mapped holder.
  sys::FakeHolder Hold(SlotId slot, bool reopenable = false) {
    sys::HugeFile& file = *files_.Get(slot);
    EXPECT_TRUE(file.Seal({}).ok());
    auto fd = file.OpenForHolder();
    EXPECT_TRUE(fd.ok()) << fd.status();
    if (reopenable) {
      EXPECT_TRUE(file.GiveInode(sys::FakeKernel::kHolderUid, 0).ok());
    }
    pool_->Held(slot);
    sys::FakeHolder holder = kernel_.AdoptHolder(*std::move(fd));
    holder.Map();
    watch_.Deliver();
    return holder;
  }
  ExtentState State(SlotId slot) const { return table_->state(slot); }

  FakeClock clock_;
  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
  sys::FakeKernelPools counters_{&kernel_};
  sys::FakeVault vault_;
  int wakes_ = 0;
  HolderNews news_{[this](const Pool&) { ++wakes_; }};
  sys::FakeHolderWatch watch_{
      &kernel_, [this](const sys::HolderWatch::Event& e) { news_.On(e); }};
  InlineEngine engine_;
  ExtentFiles files_{16};
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_RECLAIM_FIXTURE_H_
