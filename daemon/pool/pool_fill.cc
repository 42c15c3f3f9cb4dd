// Filling: what a pool has built, in which order, and what it does where the
// kernel has no pages.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/pool/pool.h"

namespace hugepool {

using enum ExtentState;

namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kLastBackoff = absl::Seconds(5);

}  // namespace

void Pool::NoteKernel(const std::optional<sys::KernelCounters>& kernel) {
  kernel_ = kernel;
  kernel_is_stale_ = false;
  if (!kernel.has_value()) return;
  // What we gave back is in limbo until the kernel's free count shows it, which
  // a pin can put off for ever.
  const PageCount known = kernel->free + charged_;
  const PageCount unaccounted =
      kernel->total > known ? kernel->total - known : PageCount(0);
  // What nobody owed us before we gave anything back is others'. What is being
  // populated is charged before the kernel has given it, so that it hides some.
  if ((InState(kPopulating) + bare_pages_).value() == 0) {
    others_ = limbo_.value() == 0 ? unaccounted : std::min(others_, unaccounted);
  }
  limbo_ = std::min(
      limbo_, unaccounted > others_ ? unaccounted - others_ : PageCount(0));
}

Need Pool::needs() const {
  MutexLock lock(&mu_);
  if (!queue_.empty() || !preparations_.empty()) return Need::kWaiters;
  return InState(kClean) < config_.low ? Need::kLow : Need::kRest;
}

PageCount Pool::MadeLocked() const {
  // relaxed: see NoteMade().
  return std::min(PageCount(made_.load(std::memory_order_relaxed)),
                  InState(kPopulating));
}

PageCount Pool::Budget(PageCount ceiling) const {
  PageCount budget =
      ceiling > charged_ ? ceiling - charged_ : PageCount(0);
  if (kernel_.has_value()) {
    // Pages being populated may or may not be in the free count any more:
    // counting them as used errs on the safe side for a moment.
    PageCount used = InState(kPopulating) + bare_pages_;
    // Others' reservations are host-wide figures, so they count only once a
    // build has failed for want of pages.
    if (build_backoff_ > absl::ZeroDuration()) {
      used = std::max(used, kernel_->reserved);
    }
    const PageCount free =
        kernel_->free > used ? kernel_->free - used : PageCount(0);
    budget = std::min(budget, free);
  }
  return budget;
}

DemandView Pool::View() const {
  DemandView view;
  view.budget = Budget(config_.target);
  view.coming = InState(kRetiring);
  for (const auto& [domain, stock] : stock_) {
    for (const auto& [shape, slots] : stock) {
      view.clean[domain][shape] = static_cast<uint32_t>(slots.size());
    }
  }
  for (const auto& [lease, slots] : bare_) {
    for (SlotId slot : slots) ++view.bare[lease][table_->pages(slot)];
  }
  view.populating = populating_;
  view.shapes = config_.shapes;
  return view;
}

std::optional<WorkItem> Pool::TakeBuild(absl::Time now) {
  if (!filling_ || now < build_after_) return std::nullopt;
  build_after_ = absl::InfinitePast();  // over: nothing to wake up for
  if (!queue_.empty()) {
    const DemandStep step =
        PlanDemands(View(), std::vector<Demand>(queue_.begin(), queue_.end()));
    switch (step.kind) {
      case DemandStep::Kind::kBuild:
        return StartBuild(step, /*urgent=*/true);
      case DemandStep::Kind::kDismantle: {
        const SlotId slot = PopClean(step.domain, step.pages);
        Go(slot, kClean, kRetiring);
        return Item(WorkKind::kRetire, slot);
      }
      case DemandStep::Kind::kWait:
        // Filling now would use up what the waiter is going to need.
        return std::nullopt;
      case DemandStep::Kind::kNothing:
        break;
    }
  }
  if (auto fill = NextFill()) {
    DemandStep step;
    step.pages = *fill;
    return StartBuild(step, InState(kClean) < config_.low);
  }
  return std::nullopt;
}

std::optional<WorkItem> Pool::StartBuild(const DemandStep& step,
                                         bool urgent) {
  const PageCount pages = step.pages;
  const PageCount from = step.from;
  SlotId slot;
  if (from.value() > 0) {
    slot = PopClean(DomainId(), from);
    HP_CHECK(slot.valid(), "the base to grow from is in stock");
    // In this order, so that the ledger never shows the larger size as clean.
    Go(slot, kClean, kPopulating);
    SubPages(kPopulating, from);
    table_->set_pages(slot, pages);
    AddPages(kPopulating, pages);
  } else {
    auto fresh = table_->Allocate({node, page_size, pages});
    if (!fresh.has_value()) {
      shortfall_ = absl::StrCat("the extent table is full (limits.max_extents: ",
                                table_->capacity(), ")");
      return std::nullopt;
    }
    slot = *fresh;
    records_[slot] = Record{};
    records_[slot].bare_for = step.bare_for;
    AddPages(kPopulating, pages);
  }
  // relaxed: see NoteMade().
  made_.store(from.value(), std::memory_order_relaxed);
  WorkItem item = Item(WorkKind::kBuild, slot);
  item.from = from;
  item.urgent = urgent;
  item.bare = step.bare_for.valid();
  item.hot = step.hot;
  return item;
}

ShapeCounts Pool::WantedShapes() const {
  const PageCount stock = InState(kClean) + InState(kVerifying) +
                          InState(kPopulating) + Budget(config_.target);
  return PlanShapes(std::min(config_.high, stock), config_.shapes,
                    learner_.Learned());
}

// What is clean or will be, without any lease giving up something.
PageCount Pool::Stock() const {
  return InState(kClean) + InState(kPopulating) + InState(kDirty) +
         InState(kClearing) + InState(kVerifying);
}

std::optional<PageCount> Pool::NextFill() const {
  PageCount budget = Budget(config_.target);
  const PageCount stock = Stock();
  if (stock >= config_.high) return std::nullopt;
  budget = std::min(budget, config_.high - stock);
  if (budget.value() == 0) return std::nullopt;
  ShapeCounts have = populating_;
  for (const auto& [domain, counts] : stock_) {
    for (const auto& [shape, slots] : counts) {
      have[shape] += static_cast<uint32_t>(slots.size());
    }
  }
  // The kernel's counters do not tell all (a cgroup's limit, reservations on
  // other nodes): what a build has not got no larger one will get.
  if (at_most_.has_value()) budget = std::min(budget, *at_most_);
  for (const auto& [shape, wanted] : WantedShapes()) {
    if (shape <= budget && have[shape] < wanted) return shape;
  }
  // The plan is met or does not fit: no page stays idle for that.
  for (PageCount shape : config_.shapes) {
    if (shape <= budget) return shape;
  }
  return std::nullopt;
}

// After a build that found too few pages: the next smaller shape, and from the
// smallest on all of them again.
void Pool::NoteNoPages(PageCount wanted) {
  at_most_.reset();
  for (PageCount shape : config_.shapes) {  // descending
    if (shape >= wanted) continue;
    at_most_ = shape;
    return;
  }
}

std::string Pool::Shortfall() const {
  if (charged_ >= config_.target || Stock() >= config_.high) return "";
  if (!shortfall_.empty()) return shortfall_;
  // Between giving back and the next look the counters say less than is there.
  if (!kernel_.has_value() || kernel_is_stale_) return "";
  if (Budget(config_.target).value() > 0) return "";
  return "the kernel has no free page left; raise nr_hugepages or lower the "
         "target";
}

void Pool::SettleBuild(const WorkItem& item, WorkOutcome outcome,
                       std::string_view why, absl::Time now, PoolNews* news) {
  if (outcome == WorkOutcome::kDone && !records_[item.slot].tripped) {
    table_->set_origin(item.slot, ExtentOrigin::kPopulated);
    table_->set_domain(item.slot, DomainId());
    build_backoff_ = absl::ZeroDuration();
    shortfall_.clear();
    if (item.bare) return SettleBare(item.slot, news);
    Go(item.slot, kPopulating, kClean);
    AddClean(item.slot);
    news->stock_grew = true;
    return;
  }
  // What was populated of it goes back explicitly (K3).
  records_[item.slot].stillborn = true;
  ToRetiring(item.slot, kPopulating);
  build_backoff_ = build_backoff_ == absl::ZeroDuration()
                       ? kFirstBackoff
                       : std::min(kLastBackoff, build_backoff_ * 2);
  build_after_ = now + build_backoff_;
  shortfall_ = std::string(why);
  if (outcome == WorkOutcome::kNoPages) NoteNoPages(item.pages);
}

// For whom it was made may have gone meanwhile.
void Pool::SettleBare(SlotId slot, PoolNews* news) {
  const LeaseId lease = records_[slot].bare_for;
  if (!Waits(lease)) return ToRetiring(slot, kPopulating);
  Go(slot, kPopulating, kBare);
  bare_pages_ += table_->pages(slot);
  bare_[lease].push_back(slot);
  news->stock_grew = true;
}

void Pool::StopFilling() {
  MutexLock lock(&mu_);
  filling_ = false;
}

}  // namespace hugepool
