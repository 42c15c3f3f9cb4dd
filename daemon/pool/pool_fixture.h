// A pool with its table for tests: work is settled by hand, nothing is real.
#ifndef HUGEPOOL_DAEMON_POOL_POOL_FIXTURE_H_
#define HUGEPOOL_DAEMON_POOL_POOL_FIXTURE_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "daemon/pool/pool.h"

namespace hugepool {

class PoolFixture : public testing::Test {
 protected:
  static constexpr DomainId kDomain{1};
  static constexpr DomainId kOther{2};
  static constexpr LeaseId kLease{77};
  static constexpr NodeId kNode{3};

  static PageCount P(uint64_t n) { return PageCount(n); }

  // 16 pages in shapes 4 and 1.
  static PoolConfig Config(uint64_t target = 16) {
    PoolConfig c;
    c.node = kNode;
    c.target = c.high = P(target);
    c.low = P(target / 4);
    c.shapes = {P(1), P(4)};
    c.learn_shapes = false;
    return c;
  }
  void Make(const PoolConfig& config, uint32_t slots = 64) {
    pool_.reset();
    table_ = *ExtentTable::Create(slots);
    pool_ = std::make_unique<Pool>(config, table_.get());
  }
  PoolFixture() { Make(Config()); }
  void TearDown() override {
    const absl::Status books = pool_->CheckInvariants();
    EXPECT_TRUE(books.ok()) << books;
  }

  // An optional WorkItem that can be assigned to.
  class Job {
   public:
    explicit Job(std::optional<WorkItem> item) {
      if (item) item_ = std::make_unique<WorkItem>(*std::move(item));
    }
    bool has_value() const { return item_ != nullptr; }
    explicit operator bool() const { return has_value(); }
    WorkItem* operator->() const { return item_.get(); }
    WorkItem& operator*() const { return *item_; }
    std::unique_ptr<WorkItem> Release() { return std::move(item_); }

   private:
    std::unique_ptr<WorkItem> item_;
  };

  absl::Time Now() const { return clock_.Now(); }
  Job Quick() { return Job(pool_->TakeQuickWork(Now())); }
  Job Work() { return Job(pool_->TakeWork(Now(), kernel_)); }
  PoolNews Settle(Job& job, WorkOutcome outcome, std::string_view why = "") {
    return pool_->Settle(std::move(*job.Release()), outcome, why, Now());
  }
  PoolNews SettleDone(Job job) { return Settle(job, WorkOutcome::kDone); }
  // Does all that can be done now, probes saying free; what came back.
  std::vector<BackExtent> DoAll() {
    std::vector<BackExtent> back;
    while (true) {
      Job item = Quick();
      if (!item) item = Work();
      if (!item) return back;
      for (BackExtent& b : SettleDone(std::move(item)).back) {
        back.push_back(b);
      }
    }
  }
  GrantTerms Terms(bool in_place = false, bool memory = false) const {
    GrantTerms t;
    t.lease = kLease;
    t.domain = kDomain;
    t.in_place = in_place;
    t.memory_lifetime = memory;
    return t;
  }
  SlotId Take(uint64_t shape, const GrantTerms& terms,
              uint64_t sequence = 1000) {
    MutexLock lock(&pool_->mu());
    return pool_->TakeLocked({P(shape)}, terms, sequence, true).front();
  }
  SlotId TakeHeld(uint64_t shape, const GrantTerms& terms) {
    const SlotId slot = Take(shape, terms);
    Open(slot);
    pool_->Held(slot);
    return slot;
  }
  ShapeCounts Usable(DomainId domain) {
    MutexLock lock(&pool_->mu());
    GrantTerms terms;
    terms.domain = domain;
    return pool_->UsableLocked(terms);
  }
  bool MayPass(uint64_t sequence, uint64_t pages) {
    MutexLock lock(&pool_->mu());
    return pool_->MayPassLocked(sequence, P(pages));
  }
  void Enqueue(uint64_t lease, uint64_t sequence, uint64_t pages,
               uint32_t max_extents = 0) {
    MutexLock lock(&pool_->mu());
    pool_->EnqueueLocked({LeaseId(lease), sequence, kDomain, P(pages),
                          max_extents, P(0), Bytes(0)});
  }
  bool Dequeue(uint64_t lease) {
    MutexLock lock(&pool_->mu());
    return pool_->DequeueLocked(LeaseId(lease));
  }
  bool Open(SlotId slot) {
    return pool_->Tell(table_->id(slot), {.opened = true});
  }
  bool Close(SlotId slot) {
    return pool_->Tell(table_->id(slot), {.closed = true});
  }
  bool Delete(SlotId slot) {
    return pool_->Tell(table_->id(slot), {.deleted = true});
  }
  void Return(SlotId slot, bool keep = true) {
    pool_->Return(slot, kLease, keep);
  }
  ExtentState State(SlotId slot) const { return table_->state(slot); }
  PageCount In(ExtentState s) const { return pool_->Snapshot().in(s); }

  FakeClock clock_;
  std::optional<sys::KernelCounters> kernel_;
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_POOL_FIXTURE_H_
