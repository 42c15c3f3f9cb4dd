#include "daemon/clear/node_workers.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/sys/cpu_binding.h"

namespace hugepool {
namespace {

// What a thread does between two looks at the stop flag, and two fences. 1 MiB
// takes some 20 us.
constexpr Bytes kZeroPiece = MiB(1);
// What is left in the caches, at the target: half of a small L2, so that it is
// still there when the next one looks.
constexpr Bytes kHotWindow = KiB(256);
// Smallest share worth a hand-over, which costs some 10 to 50 us: zeroing 8 MiB
// takes 200 us, populating 32 MiB 3 ms.
constexpr Bytes kZeroShare = MiB(8);
constexpr Bytes kPopulateShare = MiB(32);
// A thread that populates may not be interrupted before it comes back from the
// kernel: with pieces of 32 MiB others on its CPU woke up 2.8 ms late. In the
// background that is one page of 2 MiB, 0.2 ms.
constexpr Bytes kPolitePiece = MiB(2);
// What is done between going to the idle class and coming back, which cost a
// microsecond each: less than 1 % of the 200 us that it takes.
constexpr uint64_t kIdleBatch = 8;  // pieces
// Likewise for being nice: of one piece of kPolitePiece.
constexpr uint64_t kNiceBatch = 1;
// How soon one that went idle just after it was brought back is brought back
// again.
constexpr absl::Duration kRaiseEvery = absl::Milliseconds(1);

// Where the target lies, counted from the beginning of the span.
Bytes TargetIn(const FileSpan& span) {
  return std::clamp(span.target, span.from, span.to - Bytes(1)) - span.from;
}

// The part of the piece `at`, which holds `target`, that shall stay in the
// caches: what follows the target, as far as there is room.
PieceSpan HotPart(PieceSpan at, Bytes target) {
  const Bytes length = std::min(kHotWindow, at.length);
  // The store routines work on whole cache lines.
  const Bytes begin(target.value() / 4096 * 4096);
  return {std::min(begin, at.offset + at.length - length), length};
}

NodeWorkers::Rate RateOf(const ThreadTuner& tuner, bool tune, int all) {
  return {.threads = tune ? tuner.threads() : all,
          .bytes_per_second = tuner.rate()};
}

Bytes SizeOf(const PieceOrder& order, uint64_t first, uint64_t end) {
  Bytes size(0);
  for (uint64_t i = first; i < end; ++i) size += order.At(i).length;
  return size;
}

}  // namespace

NodeWorkers::NodeWorkers(const Options& options)
    : options_(options),
      stores_(options.stores != nullptr ? options.stores
                                        : SupportedStoreRoutines().front()),
      pacer_({.clock = options.clock,
              .bandwidth = options.bandwidth,
              .pressure = options.pressure,
              .pressure_limit = options.pressure_limit}),
      zero_tuner_(options.threads),
      populate_tuner_(options.threads),
      copy_tuner_(options.threads),
      fill_tuner_(options.threads),
      verify_tuner_(options.threads) {
  for (int i = 0; i < options_.threads; ++i) {
    Helper& helper = *helpers_.emplace_back(std::make_unique<Helper>());
    helper.thread = std::thread([this, &helper] { Loop(helper); });
    pthread_setname_np(helper.thread.native_handle(), "hp-worker");
  }
  MutexLock lock(&mu_);
  while (running_ < options_.threads) done_.Wait(&mu_);
}

NodeWorkers::~NodeWorkers() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    work_.SignalAll();
  }
  for (const auto& helper : helpers_) helper->thread.join();
}

void NodeWorkers::Cancel() {
  pacer_.Cancel();
  // The flag is set: a caller either sees it before it waits, or waits already.
  MutexLock lock(&mu_);
  done_.SignalAll();
}

void NodeWorkers::Hurry() {
  pacer_.Hurry();
  MutexLock lock(&mu_);
  done_.SignalAll();
}

void NodeWorkers::Nudge() {
  MutexLock lock(&mu_);
  nudged_ = true;
  done_.SignalAll();
}

bool NodeWorkers::DoOtherWork() {
  if (!meanwhile_ || !std::exchange(nudged_, false)) return false;
  mu_.Unlock();
  meanwhile_();
  mu_.Lock();
  return true;
}

absl::Status NodeWorkers::Populate(sys::HugeFile& file, const FileSpan& span,
                                   Pace pace) {
  if (span.from >= span.to) return absl::OkStatus();
  const Bytes size = span.to - span.from;
  // A piece is whole pages: a 1G page is one.
  const bool polite = pace == Pace::kBackground && !pacer_.hurried();
  const Bytes piece = std::max(polite ? kPolitePiece : kPopulateShare,
                               file.page_size().bytes());
  Job job(size, piece, TargetIn(span), pace,
          [&file, &span](PieceSpan at, bool /*last*/) {
            return file.Populate(span.from + at.offset, at.length);
          });
  if (polite && options_.sched != nullptr && piece == kPolitePiece) {
    job.quiet_batch = kNiceBatch;
    job.nice = true;
  }
  return Run(job, std::max(kPopulateShare, piece), &populate_tuner_);
}

absl::Status NodeWorkers::Zero(sys::HugeFile& file, const FileSpan& span,
                               Pace pace) {
  if (span.from >= span.to) return absl::OkStatus();
  const Bytes size = span.to - span.from;
  const Bytes target = TargetIn(span);
  const auto zero = [&](Bytes offset, Bytes end, const StoreRoutine& stores) {
    if (offset >= end) return absl::OkStatus();
    return file.Zero(span.from + offset, end - offset, stores.zero);
  };
  Job job(size, kZeroPiece, target, pace,
          [&](PieceSpan at, bool last) -> absl::Status {
            const Bytes end = at.offset + at.length;
            if (!last) return zero(at.offset, end, *stores_);
            const PieceSpan hot = HotPart(at, target);
            HP_RETURN_IF_ERROR(zero(at.offset, hot.offset, *stores_));
            HP_RETURN_IF_ERROR(zero(hot.offset + hot.length, end, *stores_));
            return zero(hot.offset, hot.offset + hot.length, PlainStores());
          });
  HP_RETURN_IF_ERROR(AllowIdle(job, file, span));
  return Run(job, kZeroShare, &zero_tuner_);
}

// By the kernel's own routine (HugeFile::CopyFrom), whose stores are what they
// are; the order is ours.
absl::Status NodeWorkers::Copy(sys::HugeFile& file,
                               const std::vector<CopyPart>& parts, Bytes target,
                               Pace pace) {
  if (parts.empty()) return absl::OkStatus();
  const FileSpan span{parts.front().offset,
                      parts.back().offset + parts.back().length, target};
  const Bytes size = span.to - span.from;
  Job job(size, kZeroPiece, TargetIn(span), pace,
          [&](PieceSpan at, bool /*last*/) {
            for (const CopyPart& p :
                 PartsIn(parts, span.from + at.offset, at.length)) {
              HP_RETURN_IF_ERROR(
                  file.CopyFrom(*p.source, p.from, p.offset, p.length));
            }
            return absl::OkStatus();
          });
  return Run(job, kZeroShare, &copy_tuner_);
}

// A page a piece. Its stores are the kernel's, so here too only the order is ours.
absl::Status NodeWorkers::Fill(sys::HugeFile& file,
                               const std::vector<CopyPart>& parts, Bytes target,
                               Pace pace) {
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<sys::HugeFill> fill,
                      file.StartFill());
  const Bytes page = file.page_size().bytes();
  const FileSpan span{Bytes(0), file.size(), target};
  Job job(file.size(), page, TargetIn(span), pace,
          [&](PieceSpan at, bool /*last*/) {
            return fill->FillPage(at.offset, PartsIn(parts, at.offset, page));
          });
  return Run(job, std::max(kPopulateShare, page), &fill_tuner_);
}

bool NodeWorkers::FillsFaster() const {
  MutexLock lock(&mu_);
  const double fill = fill_tuner_.rate();
  const double populate = populate_tuner_.rate();
  const double copy = copy_tuner_.rate();
  if (fill == 0 || populate == 0 || copy == 0) return true;
  return 1 / fill < 1 / populate + 1 / copy;
}

absl::StatusOr<sys::HugeFile::Stray> NodeWorkers::Verify(sys::HugeFile& file,
                                                         const FileSpan& span,
                                                         Pace pace) {
  if (span.from >= span.to) return sys::HugeFile::Stray{};
  // No lock: it may be the idle class that finds them. relaxed: the mutex that
  // the end of the job passes publishes them.
  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> first{std::numeric_limits<uint64_t>::max()};
  Job job(span.to - span.from, kZeroPiece, TargetIn(span), pace,
          [&](PieceSpan at, bool /*last*/) -> absl::Status {
            HP_ASSIGN_OR_RETURN(
                const sys::HugeFile::Stray stray,
                file.FindStray(span.from + at.offset, at.length));
            if (stray.count == 0) return absl::OkStatus();
            count.fetch_add(stray.count, std::memory_order_relaxed);
            uint64_t known = first.load(std::memory_order_relaxed);
            while (stray.first.value() < known &&
                   !first.compare_exchange_weak(known, stray.first.value(),
                                                std::memory_order_relaxed)) {
            }
            return absl::OkStatus();
          });
  HP_RETURN_IF_ERROR(AllowIdle(job, file, span));
  HP_RETURN_IF_ERROR(Run(job, kZeroShare, &verify_tuner_));
  sys::HugeFile::Stray all{.count = count.load(std::memory_order_relaxed)};
  if (all.count > 0) all.first = Bytes(first.load(std::memory_order_relaxed));
  return all;
}

absl::Status NodeWorkers::AllowIdle(Job& job, sys::HugeFile& file,
                                    const FileSpan& span) {
  if (options_.sched == nullptr || Urgent(job)) return absl::OkStatus();
  job.quiet_batch = kIdleBatch;
  // The pages are there; this puts them into our page tables, or the idle class
  // would fault them in, which takes locks.
  return file.Populate(span.from, span.to - span.from);
}

NodeWorkers::Rate NodeWorkers::zeroing() const {
  MutexLock lock(&mu_);
  return RateOf(zero_tuner_, options_.tune, options_.threads);
}

NodeWorkers::Rate NodeWorkers::populating() const {
  MutexLock lock(&mu_);
  return RateOf(populate_tuner_, options_.tune, options_.threads);
}

void NodeWorkers::LookAtPressure(const Job& job) {
  double rate = 0;
  {
    MutexLock lock(&mu_);
    rate = job.tuner->rate();
  }
  pacer_.Look(rate);
}

absl::Status NodeWorkers::Run(Job& job, Bytes smallest, ThreadTuner* tuner) {
  job.tuner = tuner;
  int most = options_.threads;
  const bool urgent = Urgent(job);
  if (!urgent) LookAtPressure(job);
  const bool undisturbed =
      urgent || (!pacer_.capped() && (job.quiet_batch == 0 || job.nice));
  if (options_.tune) {
    MutexLock lock(&mu_);
    most = tuner->threads();
  }
  const uint64_t shares =
      std::max<uint64_t>(1, job.size.value() / smallest.value());
  const int threads =
      static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(most), shares));
  const absl::Time begin = options_.clock->Now();
  const absl::Status status = urgent && threads == 1
                                  ? Work(job, nullptr)
                                  : Share(job, urgent ? threads - 1 : threads);
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  // Of a job with fewer threads its size is the reason, not the machine; and
  // what was held back says nothing about the machine either.
  if (threads == most && undisturbed) {
    tuner->Note(threads, job.size, options_.clock->Now() - begin);
  }
  return status;
}

absl::Status NodeWorkers::Share(Job& job, int helpers) {
  absl::Status mine;
  bool joined = false;
  MutexLock lock(&mu_);
  job_ = &job;
  status_ = absl::OkStatus();
  wanted_ = helpers;
  busy_ = helpers;
  for (int i = 0; i < helpers; ++i) work_.Signal();
  while (busy_ > 0) {
    if (!joined && (Urgent(job) || pacer_.cancelled())) {
      joined = true;
      mu_.Unlock();
      RaiseHelpers();
      mine = Work(job, nullptr);
      mu_.Lock();
      // Those that have not come yet would find nothing to do.
      busy_ -= std::exchange(wanted_, 0);
    } else if (job.pace == Pace::kBackground && DoOtherWork()) {
      // Then look again.
    } else if (joined && job.quiet_batch > 0) {
      mu_.Unlock();
      RaiseHelpers();
      mu_.Lock();
      if (busy_ > 0) done_.WaitFor(&mu_, kRaiseEvery);
    } else if (joined || !pacer_.looks()) {
      done_.Wait(&mu_);
    } else {
      done_.WaitFor(&mu_, BackOff::kEvery);
      mu_.Unlock();
      LookAtPressure(job);
      mu_.Lock();
    }
  }
  job_ = nullptr;
  return mine.ok() ? status_ : mine;
}

absl::Status NodeWorkers::Work(Job& job, Helper* self) {
  const uint64_t count = job.order.count();
  while (true) {
    const bool background = !Urgent(job);
    const bool quiet = background && self != nullptr && job.quiet_batch > 0 &&
                       !no_way_back_.load(std::memory_order_relaxed);
    const uint64_t many = quiet ? job.quiet_batch : 1;
    const uint64_t first = job.next.fetch_add(many, std::memory_order_relaxed);
    if (first >= count) return absl::OkStatus();
    const Batch batch = {first, std::min(first + many, count)};
    if (background)
      pacer_.WaitForTurn(SizeOf(job.order, batch.first, batch.end));
    const absl::Status status = quiet && !Urgent(job)
                                    ? QuietPieces(job, batch, *self)
                                    : Pieces(job, batch);
    if (!status.ok()) {
      // Nobody starts another piece: the rest is not wanted any more.
      job.next.store(count, std::memory_order_relaxed);
      return status;
    }
  }
}

absl::Status NodeWorkers::Pieces(Job& job, Batch batch) {
  for (uint64_t i = batch.first; i < batch.end; ++i) {
    if (pacer_.cancelled())
      return absl::CancelledError("the daemon is stopping");
    HP_RETURN_IF_ERROR(job.piece(job.order.At(i), i + 1 == job.order.count()));
  }
  return absl::OkStatus();
}

absl::Status NodeWorkers::QuietPieces(Job& job, Batch batch, Helper& self) {
  // Before it goes: from here on whoever hurries brings it back.
  self.idle.store(true, std::memory_order_relaxed);
  // Where it cannot go, it works as it is.
  const bool went = (job.nice ? options_.sched->SetNice(self.id)
                              : options_.sched->SetIdle(self.id))
                        .ok();
  const absl::Status status = Pieces(job, batch);
  const absl::Status back =
      went ? options_.sched->SetNormal(self.id) : absl::OkStatus();
  self.idle.store(false, std::memory_order_relaxed);
  if (!back.ok() && !no_way_back_.exchange(true, std::memory_order_relaxed)) {
    Log(LogLevel::kError,
        absl::StrCat(
            "a worker cannot leave the idle class: ", back.message(),
            "; no other will go there, or be nice. Start hugepoold anew with "
            "CAP_SYS_NICE or LimitNICE=20, or with zeroing.idle_class: "
            "false"));
  }
  return status;
}

void NodeWorkers::RaiseHelpers() {
  if (options_.sched == nullptr) return;
  for (const auto& helper : helpers_) {
    if (!helper->idle.load(std::memory_order_relaxed)) continue;
    // Where it fails the helper itself tells.
    (void)options_.sched->SetNormal(helper->id);
  }
}

void NodeWorkers::Loop(Helper& self) {
  sys::BindThisThread(options_.cpus);
  MutexLock lock(&mu_);
  self.id = sys::ThisThread();
  ++running_;
  done_.SignalAll();
  while (true) {
    while (!stop_ && wanted_ == 0) work_.Wait(&mu_);
    if (stop_) return;
    --wanted_;
    Job* const job = job_;
    mu_.Unlock();
    const absl::Status status = Work(*job, &self);
    mu_.Lock();
    if (!status.ok() && status_.ok()) status_ = status;
    if (--busy_ == 0) done_.SignalAll();
  }
}

}  // namespace hugepool
