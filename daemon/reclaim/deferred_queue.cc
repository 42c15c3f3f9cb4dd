#include "daemon/reclaim/deferred_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"

namespace hugepool {

// Takes the lock and counts that, and whether somebody had it.
class HP_SCOPED_CAPABILITY DeferredQueue::Lock {
 public:
  explicit Lock(DeferredQueue* queue)
      HP_ACQUIRE(queue->mu_) HP_NO_THREAD_SAFETY_ANALYSIS : mu_(&queue->mu_) {
    const bool free = mu_->TryLock();
    if (!free) mu_->Lock();
    ++queue->counts_.locks;
    queue->counts_.contended += free ? 0 : 1;
  }
  ~Lock() HP_RELEASE() { mu_->Unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex* const mu_;
};

DeferredQueue::~DeferredQueue() {
  Batch last;  // goes after the lock
  MutexLock lock(&mu_);
  while (head_ != nullptr) last.push_back(Unlink(*head_));
}

void DeferredQueue::AddLocked(DeferredExtent& extent, absl::Time now) {
  Lock lock(this);
  ++counts_.add_locks;
  // relaxed: only written under the lock.
  if (extent.queued_.load(std::memory_order_relaxed) || extent.ended_) return;
  Link({DeferredRef::To(extent), now});
  ++counts_.queued;
}

DeferredQueue::Batch DeferredQueue::TakeBatch(int most) {
  const int limit = std::clamp(most, 0, kLargestBatch);
  Batch batch;
  batch.reserve(static_cast<size_t>(limit));
  Lock lock(this);
  for (int i = 0; i < limit && head_ != nullptr; ++i) {
    batch.push_back(Unlink(*head_));
  }
  counts_.taken += batch.size();
  return batch;
}

// The references of those that stay away go with the argument, after the lock.
void DeferredQueue::PutBack(Batch survivors) {
  if (survivors.empty()) return;
  Lock lock(this);
  for (Item& item : survivors) {
    DeferredExtent& extent = *item.extent;
    if (extent.ended_) continue;
    // relaxed: only written under the lock.
    if (!extent.queued_.load(std::memory_order_relaxed)) {
      Link(std::move(item));
      ++counts_.put_back;
    } else if (item.since < extent.since_) {
      // Somebody released more of it meanwhile, and it is as old as it was.
      by_age_.erase({extent.since_, &extent});
      extent.since_ = item.since;
      by_age_.insert({extent.since_, &extent});
    }
  }
}

bool DeferredQueue::Remove(DeferredExtent& extent) {
  Item left;  // goes after the lock
  Lock lock(this);
  extent.ended_ = true;
  // relaxed: only written under the lock.
  if (!extent.queued_.load(std::memory_order_relaxed)) return false;
  left = Unlink(extent);
  ++counts_.removed;
  return true;
}

void DeferredQueue::Link(Item item) {
  DeferredExtent* const extent = item.extent.Let();
  extent->since_ = item.since;
  extent->prev_ = tail_;
  extent->next_ = nullptr;
  (tail_ == nullptr ? head_ : tail_->next_) = extent;
  tail_ = extent;
  by_age_.insert({extent->since_, extent});
  // relaxed: a look that finds it set comes before the next clearing, and that
  // is all that Add concludes.
  extent->queued_.store(true, std::memory_order_relaxed);
}

DeferredQueue::Item DeferredQueue::Unlink(DeferredExtent& extent) {
  DeferredExtent* const prev = std::exchange(extent.prev_, nullptr);
  DeferredExtent* const next = std::exchange(extent.next_, nullptr);
  (prev == nullptr ? head_ : prev->next_) = next;
  (next == nullptr ? tail_ : next->prev_) = prev;
  by_age_.erase({extent.since_, &extent});
  // seq_cst: comes before the scanner's read of the pages
  // (ReleasedPages::Pending, TakePending) in the one order of all; partner of
  // the look in Add. The end of the lock would not do: it only releases, and
  // the read could overtake it.
  extent.queued_.store(false, std::memory_order_seq_cst);
  return {DeferredRef::Adopt(&extent), extent.since_};
}

DeferredQueue::Stats DeferredQueue::stats() const {
  MutexLock lock(&mu_);  // not counted
  Stats stats = counts_;
  stats.length = by_age_.size();
  if (!by_age_.empty()) stats.oldest = by_age_.begin()->first;
  stats.early_exits = early_exits_.Read();
  stats.adds = stats.early_exits + stats.add_locks;
  return stats;
}

std::string DeferredQueue::Wrong(const DeferredExtent& extent) const {
  // relaxed: only written under the lock.
  if (!extent.queued_.load(std::memory_order_relaxed)) {
    return "is linked, but not flagged as queued";
  }
  if (extent.ended_) return "is linked, but its lease came back whole";
  if (extent.references() == 0) return "is linked, but has no reference";
  if (extent.queue_ != this) return "is linked in the queue of another node";
  if (by_age_.count({extent.since_, &extent}) != 1) {
    return "is linked, but not found by its age";
  }
  return "";
}

absl::Status DeferredQueue::CheckInvariants() const {
  MutexLock lock(&mu_);
  const DeferredExtent* before = nullptr;
  uint64_t linked = 0;
  for (const DeferredExtent* e = head_; e != nullptr; e = e->next_) {
    std::string wrong = Wrong(*e);
    if (e->prev_ != before) wrong = "does not lead back to the one before it";
    if (!wrong.empty()) {
      return absl::InternalError(
          absl::StrCat("deferred queue: extent ", e->id().value(), " ", wrong));
    }
    before = e;
    // A list that has become a ring would be walked for ever.
    if (++linked > by_age_.size()) break;
  }
  if (linked != by_age_.size() || before != tail_) {
    return absl::InternalError(
        absl::StrCat("deferred queue: ", linked, " extents linked, ",
                     by_age_.size(), " known by age, and the last one is ",
                     before == tail_ ? "the tail" : "not the tail"));
  }
  const uint64_t in = counts_.queued + counts_.put_back;
  const uint64_t out = counts_.taken + counts_.removed;
  if (in - out != linked) {
    return absl::InternalError(absl::StrCat("deferred queue: ", linked,
                                            " extents linked, but ", in,
                                            " came and ", out, " left"));
  }
  return absl::OkStatus();
}

}  // namespace hugepool
