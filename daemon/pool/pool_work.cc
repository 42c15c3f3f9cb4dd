// What stewards take from a pool, and how it is settled.
#include <algorithm>
#include <utility>

#include "daemon/pool/pool.h"

namespace hugepool {

using enum ExtentState;

namespace {

// Looks at memory that somebody still holds. The watch wakes us at the last
// close, so looking by the clock is only for what it cannot tell; a thousand
// stuck extents then cost 17 looks a second.
constexpr absl::Duration kFirstLook = absl::Milliseconds(50);
constexpr absl::Duration kLastLook = absl::Minutes(1);

absl::Duration LookAfter(uint16_t looks) {
  if (looks >= 11) return kLastLook;
  return std::min(kLastLook, kFirstLook * (1 << looks));
}

// How often the probe may say "free" while the watch saw no closing before the
// extent is retired all the same: the watch's news is late by microseconds, not
// by this many looks.
constexpr uint16_t kPatience = 6;

}  // namespace

WorkItem Pool::Item(WorkKind kind, SlotId slot) const {
  return WorkItem(kind, slot, node, page_size, table_->pages(slot));
}

// --- Taking ---------------------------------------------------------------------

std::optional<WorkItem> Pool::TakeQuickWork(absl::Time now) {
  MutexLock lock(&mu_);
  if (!let_go_.empty()) {
    const SlotId slot = let_go_.front();
    let_go_.pop_front();
    return Item(WorkKind::kLetGo, slot);
  }
  // What comes back first: it may be all that a waiter needs.
  if (auto probe = TakeProbe(now)) return probe;
  return TakeRecount();
}

// Pages that are given back are anybody's until they are populated again. So after
// each extent that is retired comes the build that can use its pages, not the next
// retiring: they lie free until that build maps its file, however many came back at
// once, instead of for as long as all of them take to be populated.
std::optional<WorkItem> Pool::TakeRetire() {
  if (retiring_.empty()) return std::nullopt;
  const SlotId slot = retiring_.front();
  retiring_.pop_front();
  build_next_ = true;
  return Item(WorkKind::kRetire, slot);
}

std::optional<WorkItem> Pool::TakeWork(
    absl::Time now, const std::optional<sys::KernelCounters>& kernel) {
  MutexLock lock(&mu_);
  counted_ = false;
  NoteKernel(kernel);
  if (auto preparation = TakePreparation()) return preparation;
  if (!dirty_.empty()) {
    const SlotId slot = dirty_.front();
    dirty_.pop_front();
    Go(slot, kDirty, kClearing);
    WorkItem item = Item(WorkKind::kClear, slot);
    item.urgent = !queue_.empty();
    for (const Demand& d : queue_) {
      if (d.pages == item.pages) {
        item.hot = d.hot;
        break;
      }
    }
    return item;
  }
  if (std::exchange(build_next_, false)) {
    if (auto build = TakeBuild(now)) return build;
  }
  // An operator waits for it, but not as one does who has no memory.
  if (queue_.empty()) {
    if (auto verify = TakeVerify()) return verify;
  }
  if (auto retire = TakeRetire()) return retire;
  if (auto build = TakeBuild(now)) return build;
  return TakeSample();
}

std::optional<WorkItem> Pool::TakeProbe(absl::Time now) {
  if (looks_.empty() || looks_.begin()->first > now) return std::nullopt;
  const SlotId slot = looks_.begin()->second;
  NoLook(slot);
  Record& r = records_[slot];
  r.poked = false;
  Go(slot, table_->state(slot), kProbing);
  WorkItem item = Item(WorkKind::kProbe, slot);
  item.live = !r.ended;
  item.revoke = r.ended && r.revoked;
  item.gone = table_->gone(slot);
  // What lacks pages is not made whole again, nor is what was never filled.
  if (item.gone.value() > 0 || r.bare_for.valid()) r.in_place = false;
  item.for_reuse = r.in_place && !r.tripped;
  return item;
}

bool Pool::HasWaiters() const {
  MutexLock lock(&mu_);
  return !queue_.empty() || !preparations_.empty();
}

absl::Time Pool::NextLook() const {
  MutexLock lock(&mu_);
  absl::Time next = absl::InfiniteFuture();
  if (!looks_.empty()) next = looks_.begin()->first;
  if (!recount_.empty()) next = absl::InfinitePast();
  if (filling_ && build_after_ != absl::InfinitePast()) {
    next = std::min(next, build_after_);
  }
  return next;
}

void Pool::SetInode(const WorkItem& item, uint64_t inode) {
  MutexLock lock(&mu_);
  table_->set_inode(item.slot, inode);
}

// --- Settling ---------------------------------------------------------------------

PoolNews Pool::Settle(WorkItem item, WorkOutcome outcome, std::string_view why,
                      absl::Time now) {
  MutexLock lock(&mu_);
  item.open_ = false;
  PoolNews news;
  switch (item.kind) {
    case WorkKind::kBuild:
      SettleBuild(item, outcome, why, now, &news);
      break;
    case WorkKind::kProbe:
      SettleProbe(item, outcome, now, &news);
      break;
    case WorkKind::kClear:
      SettleClear(item, outcome, &news);
      break;
    case WorkKind::kRetire:
      SettleRetire(item);
      break;
    case WorkKind::kLetGo:
      SettleLetGo(item);
      break;
    case WorkKind::kCopy:
      SettlePreparation(item, outcome, why, &news);
      break;
    case WorkKind::kVerify:
      if (table_->state(item.slot) == kPreparing) {
        SettlePreparation(item, outcome, why, &news);
      } else {
        SettleVerify(item, outcome, &news);
      }
      break;
    case WorkKind::kSplit:
      SettleSplit(item, &news);
      break;
  }
  return news;
}

void Pool::SettleProbe(const WorkItem& item, WorkOutcome outcome,
                       absl::Time now, PoolNews* news) {
  const SlotId slot = item.slot;
  Record& r = records_[slot];
  if (item.there.has_value()) NotePages(item, *item.there, news);
  const bool free = outcome == WorkOutcome::kDone ||
                    outcome == WorkOutcome::kDamaged;
  // The end of a let-go inode is the kernel's own word: nothing is open then.
  // Nor is anything of it left to be held once it was taken away.
  const bool both_say_so =
      free && r.readers == 0 &&
      (r.quiet || r.let_go || item.revoke || r.looks >= kPatience);
  if (!both_say_so) {
    if (outcome == WorkOutcome::kUnknown || outcome == WorkOutcome::kFailed) {
      r.in_place = false;
    }
    // It could not be taken away: from here on its holders are waited for.
    if (item.revoke) r.revoked = false;
    Go(slot, kProbing, r.ended ? kReturning : kHeld);
    const absl::Duration wait = free ? kFirstLook : LookAfter(r.looks);
    ++r.looks;
    if (r.poked) {
      Look(slot, absl::InfinitePast());
    } else if (r.ended ? !r.let_go : free) {
      // A living MEMORY lease is looked at again when the watch says so.
      Look(slot, now + wait);
    }
    return;
  }
  // Free although the watch never saw it closed: do not trust it with reuse.
  const bool in_place = r.in_place && r.quiet && !r.tripped && !r.let_go &&
                        outcome == WorkOutcome::kDone && !item.revoke;
  ReportBack(slot, news);
  r.ended = true;
  r.looks = 0;
  if (in_place) {
    Go(slot, kProbing, kDirty);
    dirty_.push_back(slot);
  } else {
    ToRetiring(slot, kProbing);
  }
}

void Pool::SettleClear(const WorkItem& item, WorkOutcome outcome,
                       PoolNews* news) {
  Record& r = records_[item.slot];
  if (outcome != WorkOutcome::kDone || r.tripped) {
    ToRetiring(item.slot, kClearing);
    return;
  }
  r.expected_opens = 0;
  table_->set_origin(item.slot, ExtentOrigin::kClearedInPlace);
  Go(item.slot, kClearing, kClean);
  AddClean(item.slot);
  ++cleared_;
  news->stock_grew = true;
}

void Pool::SettleRetire(const WorkItem& item) {
  // The remains of a failed build bring nobody pages that were not there when it
  // failed; trying again because of them would never end.
  if (!records_[item.slot].stillborn) {
    limbo_ += table_->present(item.slot);
    ++retired_;
    // Pages came free: those who wait for some may try at once.
    build_after_ = absl::InfinitePast();
    at_most_.reset();
    kernel_is_stale_ = true;
  }
  Forget(item.slot, kRetiring);
}

void Pool::SettleLetGo(const WorkItem& item) {
  Record& r = records_[item.slot];
  r.letting_go = false;
  // The inode may have ended between the close and now, or before a release.
  const ExtentState state = table_->state(item.slot);
  if (r.poked || state == kReturning) Look(item.slot, absl::InfinitePast());
  r.poked = false;
}

}  // namespace hugepool
