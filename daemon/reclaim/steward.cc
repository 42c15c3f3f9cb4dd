#include "daemon/reclaim/steward.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/sys/cpu_binding.h"

namespace hugepool {
namespace {

// How many extents are looked at before others have their turn, and how much of
// one is given back before the builds that it is for: 512 MiB of 2M pages take the
// kernel some milliseconds.
constexpr int kSplitBatch = 16;
constexpr PageCount kSplitAtOnce{256};
// What was released so long ago is given back though nobody is short of it: its
// holder stays charged until then.
constexpr absl::Duration kSplitAge = absl::Minutes(1);

}  // namespace

Steward::Steward(Deps deps)
    : deps_(std::move(deps)), worker_(deps_.worker) {
  // Within an item of the worker, that is: another extent's, which has nothing to
  // do with the one at hand.
  deps_.worker.engine->SetMeanwhile([this] {
    while (DoQuickWork()) {
    }
  });
  for (Pool* pool : deps_.pools) DecideFilling(*pool);
}

Steward::~Steward() { Stop(); }

void Steward::Start() {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "hp-steward");
}

void Steward::Stop() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    wake_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Steward::Wake() {
  // What is being done in the background is in the way of those who wait.
  if (AnybodyWaits()) deps_.worker.engine->Hurry();
  // What came back is not to wait for the cap.
  deps_.worker.engine->Nudge();
  MutexLock lock(&mu_);
  if (woken_) return;
  woken_ = true;
  wake_.Signal();
}

std::optional<sys::KernelCounters> Steward::ReadKernel(
    const Pool& pool) const {
  if (deps_.kernel == nullptr) return std::nullopt;
  auto counters = deps_.kernel->Read(pool.node, pool.page_size);
  if (!counters.ok()) return std::nullopt;
  return *counters;
}

void Steward::DecideFilling(Pool& pool) {
  pool.LetFill(deps_.worker.memory->CanFill(pool.page_size) &&
               deps_.worker.engine->FillsFaster());
}

bool Steward::Do(Pool& pool, std::optional<WorkItem> item) {
  if (!item.has_value()) return false;
  const ExtentWorker::Result result = worker_.Execute(pool, *item);
  if (result.outcome == WorkOutcome::kFailed ||
      result.outcome == WorkOutcome::kDamaged) {
    Log(LogLevel::kWarning,
        absl::StrCat(ToString(item->kind), " of an extent of ",
                     ToString(item->page_size.Of(item->pages)), " on node ",
                     item->node.value(), ": ", ToString(result.outcome), ": ",
                     result.why));
  }
  item->stray = result.stray;
  item->there = result.there;
  // The engine knows better now.
  if (item->kind == WorkKind::kCopy) DecideFilling(pool);
  PoolNews news = pool.Settle(*std::move(item), result.outcome, result.why,
                              deps_.clock->Now());
  if (!news.back.empty() || !news.prepared.empty() || !news.shrunk.empty() ||
      news.stray > 0 || news.stock_grew) {
    deps_.news(std::move(news));
  }
  return true;
}

bool Steward::BuildFor(Pool& pool) {
  bool did = false;
  // What was given back lies free until something is built of it: at once, before
  // another pool has its turn.
  for (bool again = true; again;) {
    auto item = pool.TakeWork(deps_.clock->Now(), ReadKernel(pool));
    again = item.has_value() && item->kind == WorkKind::kRetire;
    if (!Do(pool, std::move(item))) break;
    did = true;
  }
  return did;
}

bool Steward::AnybodyWaits() const {
  return std::any_of(deps_.pools.begin(), deps_.pools.end(),
                     [](const Pool* pool) { return pool->HasWaiters(); });
}

bool Steward::DoQuickWork() {
  for (Pool* pool : deps_.pools) {
    if (Do(*pool, pool->TakeQuickWork(deps_.clock->Now()))) return true;
  }
  return false;
}

bool Steward::Build() {
  std::vector<Need> needs;
  for (const Pool* pool : deps_.pools) needs.push_back(pool->needs());
  const size_t n = needs.size();
  for (const Need need : {Need::kWaiters, Need::kLow, Need::kRest}) {
    for (size_t i = 0; i < n; ++i) {
      const size_t at = (turn_ + i) % n;
      if (needs[at] != need || !BuildFor(*deps_.pools[at])) continue;
      turn_ = at + 1;
      return true;
    }
  }
  return false;
}

bool Steward::IsOld(absl::Time since) const {
  return since + kSplitAge <= deps_.clock->Now();
}

bool Steward::SplitOne(DeferredQueue::Item& item) {
  DeferredExtent& extent = *item.extent;
  Pool& pool = *extent.pool();
  const PageCount wanted = IsOld(item.since) ? kSplitAtOnce : pool.WantsSplit();
  if (wanted.value() == 0) return false;
  auto work = pool.StartSplit(extent.id(), extent.lease());
  if (!work.has_value()) return false;
  work->runs = extent.released().TakePending(std::min(wanted, kSplitAtOnce));
  return Do(pool, std::move(work));
}

// Whatever the batch holds and cannot be split now stays in the queue, unless it
// never can be.
bool Steward::Split() {
  if (deps_.deferred == nullptr) return false;
  const absl::Time oldest = deps_.deferred->stats().oldest;
  if (oldest == absl::InfiniteFuture()) return false;  // none waits
  if (!IsOld(oldest) &&
      std::none_of(deps_.pools.begin(), deps_.pools.end(), [](Pool* pool) {
        return pool->WantsSplit().value() > 0;
      })) {
    return false;
  }
  DeferredQueue::Batch survivors;
  bool did = false;
  for (DeferredQueue::Item& item : deps_.deferred->TakeBatch(kSplitBatch)) {
    if (SplitOne(item)) did = true;
    const DeferredExtent& extent = *item.extent;
    if (extent.released().Pending() &&
        extent.pool()->MaySplit(extent.id(), extent.lease())) {
      survivors.push_back(std::move(item));
    }
  }
  deps_.deferred->PutBack(std::move(survivors));
  return did;
}

bool Steward::Step() {
  deps_.worker.engine->Calm();
  if (AnybodyWaits()) deps_.worker.engine->Hurry();
  if (DoQuickWork()) return true;
  // What is quick and would keep the rest waiting comes after it.
  return Build() || Split() || DoQuickWork();
}

void Steward::Run() {
  sys::BindThisThread(deps_.cpus);
  while (true) {
    {
      MutexLock lock(&mu_);
      if (stop_) return;
      woken_ = false;
    }
    if (Step()) continue;
    absl::Time next = absl::InfiniteFuture();
    for (Pool* pool : deps_.pools) next = std::min(next, pool->NextLook());
    MutexLock lock(&mu_);
    while (!woken_ && !stop_) {
      // Kernel pages that others free announce themselves by nothing: look now
      // and then (T7). A look that finds nothing costs two small reads.
      const absl::Time now = deps_.clock->Now();
      const absl::Time until = std::min(next, now + absl::Seconds(2));
      if (until <= now) break;
      if (!wake_.WaitFor(&mu_, until - now)) break;
    }
  }
}

}  // namespace hugepool
