// Taking, waiting, returning and being told.
#include "daemon/pool/pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/plant.h"

namespace hugepool {

using enum ExtentState;

Pool::Pool(const PoolConfig& config, ExtentTable* table)
    : node(config.node),
      page_size(config.page_size),
      config_([&config] {
        PoolConfig c = config;
        if (c.shapes.empty()) c.shapes = DefaultShapes(c.page_size);
        std::sort(c.shapes.begin(), c.shapes.end(), std::greater<>());
        return c;
      }()),
      table_(table) {}

// --- Books -------------------------------------------------------------------

void Pool::AddPages(ExtentState state, PageCount pages) {
  pages_by_state_[static_cast<size_t>(state)] += pages;
  charged_ += pages;
  if (state == kPopulating) ++populating_[pages];
}

void Pool::SubPages(ExtentState state, PageCount pages) {
  pages_by_state_[static_cast<size_t>(state)] -= pages;
  charged_ -= pages;
  if (state == kPopulating) TakeOne(populating_, pages);
}

// Every move of an extent that stays in the books.
void Pool::Go(SlotId slot, ExtentState from, ExtentState to) {
  const PageCount pages = table_->present(slot);
  table_->Move(slot, from, to);
  SubPages(from, pages);
  AddPages(to, pages);
}

void Pool::AddClean(SlotId slot) {
  stock_[table_->domain(slot)][table_->pages(slot)].push_back(slot);
}

bool Pool::RemoveClean(SlotId slot) {
  auto domain = stock_.find(table_->domain(slot));
  if (domain == stock_.end()) return false;
  auto shape = domain->second.find(table_->pages(slot));
  if (shape == domain->second.end()) return false;
  std::vector<SlotId>& slots = shape->second;
  auto it = std::find(slots.begin(), slots.end(), slot);
  if (it == slots.end()) return false;
  slots.erase(it);
  if (slots.empty()) domain->second.erase(shape);
  if (domain->second.empty()) stock_.erase(domain);
  return true;
}

// The extent cleaned last: its page tables and the head of its memory are the
// likeliest to be cached.
SlotId Pool::PopClean(DomainId domain, PageCount shape) {
  for (DomainId d : {domain, DomainId()}) {
    auto stock = stock_.find(d);
    if (stock == stock_.end()) continue;
    auto it = stock->second.find(shape);
    if (it == stock->second.end()) continue;
    const SlotId slot = it->second.back();
    if (Planted(Defect::kDoubleGrant)) return slot;
    it->second.pop_back();
    if (it->second.empty()) stock->second.erase(it);
    if (stock->second.empty()) stock_.erase(stock);
    return slot;
  }
  return SlotId();
}

SlotId Pool::PopBare(LeaseId lease, PageCount shape) {
  auto it = bare_.find(lease);
  if (it == bare_.end()) return SlotId();
  for (SlotId slot : it->second) {
    if (table_->pages(slot) != shape) continue;
    RemoveBare(slot);
    return slot;
  }
  return SlotId();
}

void Pool::RemoveBare(SlotId slot) {
  auto it = bare_.find(records_[slot].bare_for);
  std::erase(it->second, slot);
  if (it->second.empty()) bare_.erase(it);
}

void Pool::NoLongerBare(SlotId slot) {
  records_[slot].bare_for = LeaseId();
  bare_pages_ -= table_->pages(slot);
}

void Pool::ToRetiring(SlotId slot, ExtentState from) {
  if (records_[slot].bare_for.valid()) {
    records_[slot].stillborn = true;
    if (from == kPopulating) {  // not counted as bare yet
      records_[slot].bare_for = LeaseId();
    } else {
      NoLongerBare(slot);
    }
  }
  Go(slot, from, kRetiring);
  NoLook(slot);
  retiring_.push_back(slot);
}

void Pool::Look(SlotId slot, absl::Time when) {
  NoLook(slot);
  Record& r = records_[slot];
  if (r.readers > 0) {
    r.look_later = true;
    return;
  }
  r.next_look = when;
  if (when != absl::InfiniteFuture()) looks_.emplace(when, slot);
}

void Pool::NoLook(SlotId slot) {
  Record& r = records_[slot];
  looks_.erase({r.next_look, slot});
  r.next_look = absl::InfiniteFuture();
}

void Pool::StartLettingGo(SlotId slot) {
  Record& r = records_[slot];
  r.let_go = true;
  r.letting_go = true;
  let_go_.push_back(slot);
}

// The extent is no more; its slot is free for another.
void Pool::Forget(SlotId slot, ExtentState from) {
  NoLook(slot);
  records_.erase(slot);
  const PageCount pages = table_->present(slot);
  gone_ -= table_->gone(slot);
  if (!Planted(Defect::kLosePage)) SubPages(from, pages);
  table_->Free(slot, from);
}

void Pool::ReportBack(SlotId slot, PoolNews* news) {
  news->back.push_back(BackExtent{table_->lease(slot), table_->domain(slot),
                                  table_->id(slot),
                                  page_size.Of(table_->present(slot))});
  table_->set_lease(slot, LeaseId());
}

// --- For Host ------------------------------------------------------------------

ShapeCounts Pool::UsableLocked(const GrantTerms& terms) const {
  ShapeCounts usable;
  const DomainId domain = terms.stock();
  for (DomainId d : {domain, DomainId()}) {
    auto stock = stock_.find(d);
    if (stock != stock_.end()) {
      for (const auto& [shape, slots] : stock->second) {
        usable[shape] += static_cast<uint32_t>(slots.size());
      }
    }
    if (!domain.valid()) break;  // both are the same
  }
  if (auto bare = bare_.find(terms.lease); bare != bare_.end()) {
    for (SlotId slot : bare->second) ++usable[table_->pages(slot)];
  }
  return usable;
}

bool Pool::MayPassLocked(uint64_t sequence, PageCount pages) const {
  for (const Demand& d : queue_) {
    if (d.sequence >= sequence) break;
    if (BypassLeft(d) < pages) return false;
  }
  return true;
}

std::vector<SlotId> Pool::TakeLocked(const std::vector<PageCount>& shapes,
                                     const GrantTerms& terms,
                                     uint64_t sequence, bool hit) {
  std::vector<SlotId> taken;
  PageCount sum;
  for (PageCount shape : shapes) {
    SlotId slot = PopBare(terms.lease, shape);
    if (!slot.valid()) slot = PopClean(terms.stock(), shape);
    HP_CHECK(slot.valid(), "TakeLocked was asked for what is not usable");
    Record& r = records_[slot];
    r.in_place = terms.in_place;
    r.memory_lifetime = terms.memory_lifetime;
    r.to_let_go = config_.let_go && !terms.keep_descriptor;
    r.ended = false;
    r.revoked = false;
    r.looks = 0;
    ++r.expected_opens;  // ours, at the grant
    r.quiet = false;     // until the watch has seen it closed
    if (!Planted(Defect::kStaleLedger)) table_->set_lease(slot, terms.lease);
    table_->set_domain(slot, terms.domain);
    const ExtentState from = table_->state(slot);
    if (from == kBare || !Planted(Defect::kDoubleGrant) || from == kClean) {
      Go(slot, from == kBare ? kBare : kClean, kGranted);
    }
    sum += shape;
    taken.push_back(slot);
  }
  for (Demand& d : queue_) {
    if (d.sequence >= sequence) break;
    d.bypassed += sum;
  }
  ++grants_;
  if (hit) ++hits_;
  leased_high_water_ =
      std::max(leased_high_water_,
               InState(kGranted) + InState(kPreparing) + InState(kHeld) +
                   InState(kSplitting) + InState(kReturning) +
                   InState(kProbing));
  return taken;
}

void Pool::EnqueueLocked(const Demand& demand) {
  auto it = std::find_if(queue_.begin(), queue_.end(), [&](const Demand& d) {
    return d.sequence > demand.sequence;
  });
  queue_.insert(it, demand);
}

bool Pool::DequeueLocked(LeaseId lease) {
  if (auto bare = bare_.extract(lease); !bare.empty()) {
    for (SlotId slot : bare.mapped()) ToRetiring(slot, kBare);
  }
  return std::erase_if(queue_, [&](const Demand& d) {
           return d.lease == lease;
         }) > 0;
}

bool Pool::Waits(LeaseId lease) const {
  return std::any_of(queue_.begin(), queue_.end(),
                     [lease](const Demand& d) { return d.lease == lease; });
}

void Pool::NoteSingleExtentLocked(PageCount pages) {
  if (config_.learn_shapes &&
      std::find(config_.shapes.begin(), config_.shapes.end(), pages) ==
          config_.shapes.end()) {
    learner_.Note(pages);
  }
}

// --- For leases ------------------------------------------------------------------

void Pool::Held(SlotId slot) {
  MutexLock lock(&mu_);
  Go(slot, kGranted, kHeld);
  Record& r = records_[slot];
  if (r.to_let_go) StartLettingGo(slot);
  // Its holder may have closed it before the acknowledgement was read.
  if (r.memory_lifetime && !r.let_go) Look(slot, absl::InfinitePast());
}

void Pool::Untake(SlotId slot) {
  MutexLock lock(&mu_);
  Record& r = records_[slot];
  r.ended = true;
  table_->set_lease(slot, LeaseId());
  if (r.tripped) {  // somebody got at it meanwhile: as if it had been held
    Go(slot, kGranted, kReturning);
    Look(slot, absl::InfinitePast());
    return;
  }
  NoOpening(r);
  if (r.bare_for.valid()) return ToRetiring(slot, kGranted);
  // What was cleared in place stays its domain's.
  if (table_->origin(slot) == ExtentOrigin::kPopulated) {
    table_->set_domain(slot, DomainId());
  }
  Go(slot, kGranted, kClean);
  AddClean(slot);
}

void Pool::Return(SlotId slot, LeaseId lease, bool keep_in_place) {
  MutexLock lock(&mu_);
  auto it = records_.find(slot);
  if (it == records_.end()) return;
  if (table_->lease(slot) != lease && !Planted(Defect::kStaleLedger)) return;
  Record& r = it->second;
  r.ended = true;
  r.looks = 0;
  if (!keep_in_place) r.in_place = false;
  const ExtentState state = table_->state(slot);
  // Settling will send it to Returning.
  if (state == kProbing || state == kSplitting) return;
  Go(slot, state, kReturning);
  // What is to be revoked can be only while we have its descriptor.
  if (config_.let_go && !r.let_go && !r.revoked) {
    StartLettingGo(slot);
  } else if (!r.letting_go) {
    Look(slot, absl::InfinitePast());
  }
}

bool Pool::MayRevoke(SlotId slot, LeaseId lease) const {
  MutexLock lock(&mu_);
  const auto it = records_.find(slot);
  return it != records_.end() && table_->lease(slot) == lease &&
         !it->second.let_go;
}

void Pool::Revoke(SlotId slot, LeaseId lease) {
  MutexLock lock(&mu_);
  auto it = records_.find(slot);
  if (it == records_.end() || table_->lease(slot) != lease ||
      it->second.let_go) {
    return;
  }
  Record& r = it->second;
  r.revoked = true;
  r.looks = 0;
  const ExtentState state = table_->state(slot);
  if (state == kReturning) {
    Look(slot, absl::InfinitePast());
  } else if (state == kProbing || state == kSplitting) {
    r.poked = true;
  }
}

void Pool::ExpectOpen(SlotId slot) {
  MutexLock lock(&mu_);
  ++records_[slot].expected_opens;
}

// --- For the first witness ----------------------------------------------------------

bool Pool::Tell(ExtentId id, const Told& told) {
  MutexLock lock(&mu_);
  const SlotId slot = ExtentTable::SlotOf(id);
  auto it = records_.find(slot);
  if (it == records_.end() || table_->id(slot) != id) return false;
  Record& r = it->second;
  const ExtentState state = table_->state(slot);
  if (told.opened) {
    r.quiet = false;
    if (r.expected_opens > 0) {
      --r.expected_opens;
    } else {
      r.tripped = true;
      if (state == kClean) {
        // Somebody got at memory that nobody may reach: never lend it.
        RemoveClean(slot);
        ToRetiring(slot, kClean);
        return true;
      }
      if (state == kBare) {
        RemoveBare(slot);
        ToRetiring(slot, kBare);
        return true;
      }
    }
  }
  if (told.closed) r.quiet = true;
  // It may have punched pages: they are of use to others.
  const bool recount = told.changed && state == kHeld && !r.let_go;
  if (recount) recount_.insert(id);
  if (!told.closed && !told.deleted) return recount;
  r.looks = 0;
  if (state == kProbing || state == kSplitting || r.letting_go) {
    r.poked = true;
    return false;
  }
  if (state == kReturning || (state == kHeld && r.memory_lifetime) ||
      (state == kHeld && told.deleted)) {
    Look(slot, absl::InfinitePast());
    return true;
  }
  return recount;
}

void Pool::TellLost() {
  MutexLock lock(&mu_);
  for (auto& [slot, r] : records_) {
    const ExtentState state = table_->state(slot);
    if (state == kReturning || (state == kHeld && r.memory_lifetime) ||
        (state == kHeld && r.let_go)) {
      r.looks = 0;
      if (!r.letting_go) Look(slot, absl::InfinitePast());
    } else if (state == kProbing || state == kSplitting) {
      r.poked = true;
    }
    if (state == kHeld && !r.let_go) recount_.insert(table_->id(slot));
    // An opening may be among what was lost: nothing of this is reused in
    // place. Quiet is left to the probe alone from here on.
    if (state != kPopulating) r.in_place = false;
    r.quiet = true;
    r.expected_opens = 0;
  }
}

// --- Looking ------------------------------------------------------------------------

PoolSnapshot Pool::Snapshot() const {
  MutexLock lock(&mu_);
  PoolSnapshot s;
  s.config = config_;
  s.pages_by_state = pages_by_state_;
  s.charged = charged_;
  s.limbo = limbo_;
  s.made = MadeLocked();
  s.extents = static_cast<uint32_t>(records_.size());
  s.waiters = static_cast<uint32_t>(queue_.size());
  for (const auto& [domain, stock] : stock_) {
    for (const auto& [shape, slots] : stock) {
      s.clean[shape] += static_cast<uint32_t>(slots.size());
    }
  }
  s.wanted = WantedShapes();
  s.shortfall = Shortfall();
  s.kernel = kernel_;
  s.leased_high_water = leased_high_water_;
  s.grants = grants_;
  s.hits = hits_;
  s.retired = retired_;
  s.cleared = cleared_;
  s.verified = verified_;
  s.stray = stray_;
  s.filled = filled_;
  s.gone = gone_;
  s.split = split_;
  s.regained = page_size.Of(regained_);
  return s;
}

}  // namespace hugepool
