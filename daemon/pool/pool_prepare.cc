// What is done to an extent between its taking and its grant, who reads it
// meanwhile, and the verification of clean memory.
#include <algorithm>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/pool/pool.h"

namespace hugepool {

using enum ExtentState;

// --- Preparing --------------------------------------------------------------

void Pool::Prepare(SlotId slot, Preparation preparation) {
  MutexLock lock(&mu_);
  HP_CHECK(table_->state(slot) == kGranted, "what is prepared is granted");
  const bool bare = records_[slot].bare_for.valid();
  HP_CHECK(bare || preparation.verify || !preparation.copy.empty(),
           "there is something to prepare");
  HP_CHECK(!bare || !preparation.verify, "no page is there to look at");
  const bool fresh = preparations_.emplace(slot, std::move(preparation)).second;
  HP_CHECK(fresh, "an extent is prepared once");
  to_prepare_.push_back(slot);
}

std::optional<WorkItem> Pool::TakePreparation() {
  if (to_prepare_.empty()) return std::nullopt;
  const SlotId slot = to_prepare_.front();
  to_prepare_.pop_front();
  const Preparation& p = preparations_.at(slot);
  Go(slot, kGranted, kPreparing);
  WorkItem item = Item(p.verify ? WorkKind::kVerify : WorkKind::kCopy, slot);
  item.urgent = true;
  item.hot = p.hot;
  if (p.verify) {
    item.verify_to = page_size.Of(item.pages);
  } else {
    item.copy = p.copy;
    item.bare = records_[slot].bare_for.valid();
  }
  return item;
}

void Pool::SettlePreparation(const WorkItem& item, WorkOutcome outcome,
                             std::string_view why, PoolNews* news) {
  const SlotId slot = item.slot;
  Preparation& p = preparations_.at(slot);
  Go(slot, kPreparing, kGranted);
  const bool done = outcome == WorkOutcome::kDone;
  if (item.kind == WorkKind::kVerify) {
    NoteVerified(item, news);
    p.verify = false;
    if (done && !p.copy.empty()) {
      to_prepare_.push_front(slot);
      return;
    }
    if (!done) records_[slot].in_place = false;  // not to be trusted again
  }
  if (item.bare && done) {
    NoLongerBare(slot);
    filled_ += page_size.Of(item.pages);
  }
  preparations_.erase(slot);
  news->prepared.push_back(
      {item.kind, table_->lease(slot), table_->id(slot), outcome,
       std::string(why)});
}

void Pool::NeverOpened(SlotId slot) {
  MutexLock lock(&mu_);
  NoOpening(records_[slot]);
}

// --- Reading ----------------------------------------------------------------

bool Pool::IsHeld(SlotId slot, const Record& record) const {
  const ExtentState state = table_->state(slot);
  const bool held =
      state == kHeld || state == kProbing || state == kSplitting;
  return held && !record.ended && !record.let_go;
}

bool Pool::StartReading(SlotId slot, LeaseId lease) {
  MutexLock lock(&mu_);
  auto it = records_.find(slot);
  if (it == records_.end() || table_->lease(slot) != lease) return false;
  Record& r = it->second;
  if (!IsHeld(slot, r) || config_.let_go) return false;
  ++r.readers;
  if (r.next_look != absl::InfiniteFuture()) {
    NoLook(slot);
    r.look_later = true;
  }
  return true;
}

void Pool::EndReading(SlotId slot) {
  MutexLock lock(&mu_);
  Record& r = records_.at(slot);
  HP_CHECK(r.readers > 0, "who ends reading has started");
  if (--r.readers > 0 || !std::exchange(r.look_later, false)) return;
  const ExtentState state = table_->state(slot);
  if (state == kProbing || state == kSplitting) {
    r.poked = true;
  } else {
    Look(slot, absl::InfinitePast());
  }
}

// --- Verifying --------------------------------------------------------------

bool Pool::IsClean(ExtentId id) const {
  const SlotId slot = ExtentTable::SlotOf(id);
  return records_.contains(slot) && table_->id(slot) == id &&
         table_->state(slot) == kClean;
}

void Pool::StartVerify(uint64_t pass) {
  MutexLock lock(&mu_);
  VerifyPass p;
  p.id = pass;
  for (const auto& [domain, stock] : stock_) {
    for (const auto& [shape, slots] : stock) {
      for (SlotId slot : slots) p.left.push_back(table_->id(slot));
    }
  }
  passes_.push_back(std::move(p));
}

std::optional<Pool::VerifyResult> Pool::FinishVerify(uint64_t pass) {
  MutexLock lock(&mu_);
  for (auto it = passes_.begin(); it != passes_.end(); ++it) {
    if (it->id != pass) continue;
    while (!it->left.empty() && !IsClean(it->left.front())) {
      it->left.pop_front();
    }
    if (it->at_work || !it->left.empty()) return std::nullopt;
    const VerifyResult result = it->result;
    passes_.erase(it);
    return result;
  }
  return std::nullopt;
}

void Pool::CancelVerify(uint64_t pass) {
  MutexLock lock(&mu_);
  passes_.remove_if([pass](const VerifyPass& p) { return p.id == pass; });
}

void Pool::SampleVerify(Bytes most) {
  MutexLock lock(&mu_);
  sample_ = most;
}

PageCount Pool::Verifying() const {
  MutexLock lock(&mu_);
  return InState(kVerifying);
}

std::optional<WorkItem> Pool::TakeVerify() {
  for (VerifyPass& pass : passes_) {
    if (pass.at_work) continue;
    while (!pass.left.empty()) {
      const ExtentId id = pass.left.front();
      pass.left.pop_front();
      if (!IsClean(id)) continue;
      const SlotId slot = ExtentTable::SlotOf(id);
      RemoveClean(slot);
      Go(slot, kClean, kVerifying);
      WorkItem item = Item(WorkKind::kVerify, slot);
      item.urgent = true;
      item.verify_to = page_size.Of(item.pages);
      item.pass = pass.id;
      pass.at_work = true;
      return item;
    }
  }
  return std::nullopt;
}

// The clean extents in the order of their slots, each from its beginning, round
// and round.
std::optional<WorkItem> Pool::TakeSample() {
  if (sample_ == Bytes(0)) return std::nullopt;
  SlotId next;   // the one after the last
  SlotId first;  // of all
  for (const auto& [domain, stock] : stock_) {
    for (const auto& [shape, slots] : stock) {
      for (SlotId slot : slots) {
        if (!first.valid() || slot < first) first = slot;
        if (slot < sample_slot_) continue;
        if (!next.valid() || slot < next) next = slot;
      }
    }
  }
  const SlotId slot = next.valid() ? next : first;
  if (!slot.valid()) {  // nothing is clean: another time
    sample_ = Bytes(0);
    return std::nullopt;
  }
  WorkItem item = Item(WorkKind::kVerify, slot);
  const Bytes size = page_size.Of(item.pages);
  item.verify_from =
      slot == sample_slot_ && sample_offset_ < size ? sample_offset_ : Bytes(0);
  item.verify_to = std::min(size, item.verify_from + sample_);
  sample_ -= item.verify_to - item.verify_from;
  if (item.verify_to == size) {
    sample_slot_ = SlotId(slot.value() + 1);
    sample_offset_ = Bytes(0);
    // Once round is enough, however small the pool is.
    if (slot == first && !next.valid()) sample_ = Bytes(0);
  } else {
    sample_slot_ = slot;
    sample_offset_ = item.verify_to;
  }
  RemoveClean(slot);
  Go(slot, kClean, kVerifying);
  return item;
}

void Pool::NoteVerified(const WorkItem& item, PoolNews* news) {
  verified_ += item.verify_to - item.verify_from;
  stray_ += item.stray;
  news->stray = item.stray;
}

void Pool::SettleVerify(const WorkItem& item, WorkOutcome outcome,
                        PoolNews* news) {
  NoteVerified(item, news);
  for (VerifyPass& pass : passes_) {
    if (item.pass == 0 || pass.id != item.pass) continue;
    pass.at_work = false;
    pass.result.verified += item.verify_to - item.verify_from;
    pass.result.stray += item.stray;
  }
  if (outcome == WorkOutcome::kDone && !records_[item.slot].tripped) {
    Go(item.slot, kVerifying, kClean);
    AddClean(item.slot);
    news->stock_grew = true;
    return;
  }
  ToRetiring(item.slot, kVerifying);
}

}  // namespace hugepool
