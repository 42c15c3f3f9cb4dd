// A pool's books, counted again.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/pool/pool.h"

namespace hugepool {

using enum ExtentState;

namespace {

template <typename... Parts>
absl::Status Wrong(const Pool& pool, const Parts&... parts) {
  return absl::InternalError(absl::StrCat("pool of ", ToString(pool.page_size),
                                          " on node ", pool.node.value(), ": ",
                                          parts...));
}

}  // namespace

absl::Status Pool::CheckInvariants() const {
  MutexLock lock(&mu_);
  HP_RETURN_IF_ERROR(CheckCounts());
  HP_RETURN_IF_ERROR(CheckPreparations());
  HP_RETURN_IF_ERROR(CheckStock());
  return CheckBare();
}

absl::Status Pool::CheckExtent(SlotId slot) const {
  const ExtentState state = table_->state(slot);
  auto it = records_.find(slot);
  if (it == records_.end()) {
    return Wrong(*this, "slot ", slot.value(), " has no record");
  }
  const Record& r = it->second;
  if (state == kBare && !r.bare_for.valid()) {
    return Wrong(*this, "slot ", slot.value(), " is bare for nobody");
  }
  const bool leased =
      state == kGranted || state == kPreparing || state == kHeld ||
      state == kSplitting;
  if (leased && !table_->lease(slot).valid()) {
    return Wrong(*this, "slot ", slot.value(), " is ", ToString(state),
                 " but the ledger names no lease");
  }
  if (state == kClean && table_->lease(slot).valid()) {
    return Wrong(*this, "slot ", slot.value(), " is clean but has a lease");
  }
  const bool leasable = leased || state == kProbing || state == kReturning ||
                        state == kRetiring;
  if (!leasable && table_->gone(slot).value() > 0) {
    return Wrong(*this, "slot ", slot.value(), " is ", ToString(state),
                 " and lacks ", table_->gone(slot).value(), " pages");
  }
  if (state == kReturning && !r.let_go && r.readers == 0 &&
      r.next_look == absl::InfiniteFuture()) {
    return Wrong(*this, "slot ", slot.value(),
                 " is returning, but nobody will look");
  }
  return absl::OkStatus();
}

absl::Status Pool::CheckCounts() const {
  std::array<PageCount, kExtentStates> count = {};
  PageCount sum;
  PageCount bare;
  PageCount gone;
  size_t living = 0;
  for (SlotId slot : table_->Living()) {
    if (table_->node(slot) != node || table_->page_size(slot) != page_size) {
      continue;
    }
    HP_RETURN_IF_ERROR(CheckExtent(slot));
    const ExtentState state = table_->state(slot);
    const PageCount pages = table_->present(slot);
    gone += table_->gone(slot);
    ++living;
    count[static_cast<size_t>(state)] += pages;
    sum += pages;
    if (records_.at(slot).bare_for.valid() && state != kPopulating) {
      bare += pages;
    }
  }
  if (living != records_.size()) {
    return Wrong(*this, records_.size(), " records for ", living, " extents");
  }
  for (int s = 0; s < kExtentStates; ++s) {
    if (count[s] != pages_by_state_[s]) {
      return Wrong(*this, pages_by_state_[s].value(), " pages booked as ",
                   ToString(static_cast<ExtentState>(s)), ", counted ",
                   count[s].value());
    }
  }
  if (sum != charged_) {
    return Wrong(*this, charged_.value(), " pages charged, counted ",
                 sum.value());
  }
  if (bare != bare_pages_) {
    return Wrong(*this, bare_pages_.value(),
                 " pages booked as not there, counted ", bare.value());
  }
  if (gone != gone_) {
    return Wrong(*this, gone_.value(), " pages booked as gone, counted ",
                 gone.value());
  }
  // Nobody can keep a holder from taking back what it gave up.
  if (charged_ > config_.target + regained_) {
    return Wrong(*this, charged_.value(), " pages charged, target is ",
                 config_.target.value());
  }
  return absl::OkStatus();
}

absl::Status Pool::CheckPreparations() const {
  for (const auto& [slot, p] : preparations_) {
    const ExtentState state = table_->state(slot);
    if (!records_.contains(slot) ||
        (state != kGranted && state != kPreparing)) {
      return Wrong(*this, "slot ", slot.value(), " is to be prepared but is ",
                   ToString(state));
    }
  }
  if (to_prepare_.size() > preparations_.size()) {
    return Wrong(*this, to_prepare_.size(), " slots to hand out for ",
                 preparations_.size(), " preparations");
  }
  return absl::OkStatus();
}

absl::Status Pool::CheckStock() const {
  PageCount clean;
  for (const auto& [domain, stock] : stock_) {
    for (const auto& [shape, slots] : stock) {
      for (SlotId slot : slots) {
        if (table_->state(slot) != kClean || table_->pages(slot) != shape ||
            table_->domain(slot) != domain) {
          return Wrong(*this, "slot ", slot.value(), " is in stock but is ",
                       ToString(table_->state(slot)));
        }
        clean += shape;
      }
    }
  }
  if (clean != InState(kClean)) {
    return Wrong(*this, clean.value(), " pages in stock, ",
                 InState(kClean).value(), " booked as clean");
  }
  return absl::OkStatus();
}

absl::Status Pool::CheckBare() const {
  PageCount waiting;
  for (const auto& [lease, slots] : bare_) {
    for (SlotId slot : slots) {
      if (table_->state(slot) != kBare ||
          records_.at(slot).bare_for != lease) {
        return Wrong(*this, "slot ", slot.value(), " waits for lease ",
                     lease.value(), " but is ", ToString(table_->state(slot)));
      }
      waiting += table_->pages(slot);
    }
    if (!Waits(lease)) {
      return Wrong(*this, "bare extents for lease ", lease.value(),
                   ", which does not wait");
    }
  }
  if (waiting != InState(kBare)) {
    return Wrong(*this, waiting.value(), " bare pages wait, booked are ",
                 InState(kBare).value());
  }
  return absl::OkStatus();
}

}  // namespace hugepool
