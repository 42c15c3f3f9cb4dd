// Pages that a lease gives up while it goes on: released ones are given back to the
// kernel where the pool runs short, and what its holder does to its pages by itself
// is noticed.
#include <algorithm>

#include "daemon/base/check.h"
#include "daemon/pool/pool.h"

namespace hugepool {

using enum ExtentState;

PageCount Pool::WantsSplit() {
  MutexLock lock(&mu_);
  if (!filling_) return PageCount(0);
  const PageCount stock = Stock();
  PageCount wanted = config_.high;
  for (const Demand& d : queue_) wanted = std::max(wanted, d.pages);
  if (stock < config_.low) splitting_ = true;
  if (stock >= config_.high) splitting_ = false;
  if ((!splitting_ && queue_.empty()) || stock >= wanted) return PageCount(0);
  // What can be built without that, or is on its way, comes first.
  const PageCount coming =
      stock + Budget(config_.target) + InState(kRetiring) + limbo_;
  return wanted > coming ? wanted - coming : PageCount(0);
}

bool Pool::MaySplit(ExtentId id, LeaseId lease) const {
  MutexLock lock(&mu_);
  const SlotId slot = ExtentTable::SlotOf(id);
  auto it = records_.find(slot);
  if (it == records_.end() || table_->id(slot) != id ||
      table_->lease(slot) != lease) {
    return false;
  }
  return IsHeld(slot, it->second) || table_->state(slot) == kGranted;
}

std::optional<WorkItem> Pool::StartSplit(ExtentId id, LeaseId lease) {
  MutexLock lock(&mu_);
  if (table_->lease(ExtentTable::SlotOf(id)) != lease) return std::nullopt;
  return StartSplitLocked(id);
}

std::optional<WorkItem> Pool::StartSplitLocked(ExtentId id) {
  const SlotId slot = ExtentTable::SlotOf(id);
  auto it = records_.find(slot);
  if (it == records_.end() || table_->id(slot) != id ||
      table_->state(slot) != kHeld || !IsHeld(slot, it->second)) {
    return std::nullopt;
  }
  Record& r = it->second;
  // A look that is due comes after it.
  r.poked = r.next_look != absl::InfiniteFuture();
  NoLook(slot);
  Go(slot, kHeld, kSplitting);
  return Item(WorkKind::kSplit, slot);
}

std::optional<WorkItem> Pool::TakeRecount() {
  while (!counted_ && !recount_.empty()) {
    const ExtentId id = *recount_.begin();
    recount_.erase(recount_.begin());
    if (auto item = StartSplitLocked(id)) {
      counted_ = true;
      return item;
    }
  }
  return std::nullopt;
}

void Pool::RecountShrunk() {
  MutexLock lock(&mu_);
  if (gone_.value() == 0) return;
  for (const auto& [slot, r] : records_) {
    if (table_->gone(slot).value() > 0 && table_->state(slot) == kHeld) {
      recount_.insert(table_->id(slot));
    }
  }
}

// The books follow what is there.
void Pool::NotePages(const WorkItem& item, PageCount there, PoolNews* news) {
  const SlotId slot = item.slot;
  // Of a bare one none was there yet: its pages are charged all the same, and none
  // comes back.
  if (records_[slot].bare_for.valid()) return;
  there = std::min(there, item.pages);  // what ordinary memory counts beside
  const PageCount before = table_->present(slot);
  if (there == before) return;
  const ExtentState state = table_->state(slot);
  SubPages(state, before);
  AddPages(state, there);
  gone_ -= table_->gone(slot);
  table_->set_gone(slot, item.pages - there);
  gone_ += table_->gone(slot);
  if (there < before) {
    const PageCount back = before - there;
    split_ += page_size.Of(back);
    limbo_ += back;
    // Pages came free: see SettleRetire().
    build_after_ = absl::InfinitePast();
    at_most_.reset();
    kernel_is_stale_ = true;
  } else {
    regained_ += there - before;
  }
  news->shrunk.push_back({table_->lease(slot), table_->domain(slot),
                          table_->id(slot), page_size.Of(before),
                          page_size.Of(there)});
}

void Pool::SettleSplit(const WorkItem& item, PoolNews* news) {
  const SlotId slot = item.slot;
  if (item.there.has_value()) NotePages(item, *item.there, news);
  Record& r = records_[slot];
  Go(slot, kSplitting, r.ended ? kReturning : kHeld);
  if (r.ended || r.poked) Look(slot, absl::InfinitePast());
  r.poked = false;
}

}  // namespace hugepool
