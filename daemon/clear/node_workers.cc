#include "daemon/clear/node_workers.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "daemon/base/errno_status.h"
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
constexpr Bytes kPopulatePiece = MiB(32);

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

}  // namespace

NodeWorkers::NodeWorkers(const Options& options)
    : options_(options),
      stores_(options.stores != nullptr ? options.stores
                                        : SupportedStoreRoutines().front()),
      throttle_(options.bandwidth),
      zero_tuner_(options.threads),
      populate_tuner_(options.threads),
      copy_tuner_(options.threads),
      verify_tuner_(options.threads) {
  for (int i = 1; i < options_.threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(), "hp-worker");
  }
  MutexLock lock(&mu_);
  while (running_ < static_cast<int>(threads_.size())) done_.Wait(&mu_);
}

NodeWorkers::~NodeWorkers() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    work_.SignalAll();
  }
  for (std::thread& t : threads_) t.join();
}

void NodeWorkers::Cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  MutexLock lock(&mu_);
  turn_.SignalAll();
}

void NodeWorkers::Hurry() {
  MutexLock lock(&mu_);
  hurried_ = true;
  turn_.SignalAll();
}

void NodeWorkers::Calm() {
  MutexLock lock(&mu_);
  hurried_ = false;
}

void NodeWorkers::SetBandwidth(std::optional<Bytes> per_second) {
  MutexLock lock(&mu_);
  throttle_.Set(per_second);
  ++caps_set_;
  turn_.SignalAll();
}

void NodeWorkers::Nudge() {
  MutexLock lock(&mu_);
  nudged_ = true;
  turn_.SignalAll();
  done_.SignalAll();
}

bool NodeWorkers::DoOtherWork() {
  if (!meanwhile_ || !std::exchange(nudged_, false)) return false;
  mu_.Unlock();
  meanwhile_();
  mu_.Lock();
  return true;
}

void NodeWorkers::WaitForTurn(Bytes work, bool caller) {
  MutexLock lock(&mu_);
  if (hurried_ || !throttle_.capped()) return;
  absl::Time now = options_.clock->Now();
  const absl::Time until = now + throttle_.Take(work, now);
  const uint64_t caps_set = caps_set_;
  while (now < until && !hurried_ && caps_set == caps_set_ &&
         !cancelled_.load(std::memory_order_relaxed)) {
    if (!caller || !DoOtherWork()) turn_.WaitFor(&mu_, until - now);
    now = options_.clock->Now();
  }
}

absl::Status NodeWorkers::Populate(sys::HugeFile& file, const FileSpan& span,
                                   Pace pace) {
  if (span.from >= span.to) return absl::OkStatus();
  const Bytes size = span.to - span.from;
  // A piece is whole pages: a 1G page is one.
  const Bytes piece = std::max(kPopulatePiece, file.page_size().bytes());
  Job job(size, piece, TargetIn(span), pace,
          [&file, &span](PieceSpan at, bool /*last*/) {
            return file.Populate(span.from + at.offset, at.length);
          });
  return Run(job, size, piece, &populate_tuner_);
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
  return Run(job, size, kZeroShare, &zero_tuner_);
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
            const Bytes from = span.from + at.offset;
            const Bytes to = from + at.length;
            for (const CopyPart& p : parts) {
              const Bytes begin = std::max(from, p.offset);
              const Bytes end = std::min(to, p.offset + p.length);
              if (begin >= end) continue;
              HP_RETURN_IF_ERROR(file.CopyFrom(
                  *p.source, p.from + (begin - p.offset), begin, end - begin));
            }
            return absl::OkStatus();
          });
  return Run(job, size, kZeroShare, &copy_tuner_);
}

absl::StatusOr<sys::HugeFile::Stray> NodeWorkers::Verify(sys::HugeFile& file,
                                                         const FileSpan& span,
                                                         Pace pace) {
  sys::HugeFile::Stray all;
  if (span.from >= span.to) return all;
  const Bytes size = span.to - span.from;
  Mutex mu;  // a leaf; taken for what should not be there
  Job job(size, kZeroPiece, TargetIn(span), pace,
          [&](PieceSpan at, bool /*last*/) -> absl::Status {
            HP_ASSIGN_OR_RETURN(
                const sys::HugeFile::Stray stray,
                file.FindStray(span.from + at.offset, at.length));
            if (stray.count == 0) return absl::OkStatus();
            MutexLock lock(&mu);
            all.first =
                all.count == 0 ? stray.first : std::min(all.first, stray.first);
            all.count += stray.count;
            return absl::OkStatus();
          });
  HP_RETURN_IF_ERROR(Run(job, size, kZeroShare, &verify_tuner_));
  return all;
}

NodeWorkers::Rate NodeWorkers::zeroing() const {
  MutexLock lock(&mu_);
  return RateOf(zero_tuner_, options_.tune, options_.threads);
}

NodeWorkers::Rate NodeWorkers::populating() const {
  MutexLock lock(&mu_);
  return RateOf(populate_tuner_, options_.tune, options_.threads);
}

absl::Status NodeWorkers::Run(Job& job, Bytes size, Bytes smallest,
                              ThreadTuner* tuner) {
  int most = options_.threads;
  bool capped = false;
  {
    MutexLock lock(&mu_);
    if (options_.tune) most = tuner->threads();
    capped = job.pace == Pace::kBackground && throttle_.capped() && !hurried_;
  }
  const uint64_t shares =
      std::max<uint64_t>(1, size.value() / smallest.value());
  const int threads =
      static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(most), shares));
  const absl::Time begin = options_.clock->Now();
  const absl::Status status =
      threads == 1 ? Work(job, true) : Share(job, threads);
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  // Of a job with fewer threads its size is the reason, not the machine; and a
  // cap says nothing about the machine either.
  if (threads == most && !capped) {
    tuner->Note(threads, size, options_.clock->Now() - begin);
  }
  return status;
}

absl::Status NodeWorkers::Share(Job& job, int threads) {
  {
    MutexLock lock(&mu_);
    job_ = &job;
    status_ = absl::OkStatus();
    wanted_ = threads - 1;
    busy_ = threads - 1;
    for (int i = 0; i < wanted_; ++i) work_.Signal();
  }
  const absl::Status mine = Work(job, true);
  MutexLock lock(&mu_);
  // Those that have not come yet would find nothing to do.
  busy_ -= std::exchange(wanted_, 0);
  // The others may have to wait for the cap.
  while (busy_ > 0) {
    if (job.pace == Pace::kUrgent || !DoOtherWork()) done_.Wait(&mu_);
  }
  job_ = nullptr;
  return mine.ok() ? status_ : mine;
}

absl::Status NodeWorkers::Work(Job& job, bool caller) {
  const uint64_t count = job.order.count();
  while (true) {
    const uint64_t i = job.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= count) return absl::OkStatus();
    const PieceSpan at = job.order.At(i);
    if (job.pace == Pace::kBackground) WaitForTurn(at.length, caller);
    absl::Status status = cancelled_.load(std::memory_order_relaxed)
                              ? absl::CancelledError("the daemon is stopping")
                              : job.piece(at, i + 1 == count);
    if (!status.ok()) {
      // Nobody starts another piece: the rest is not wanted any more.
      job.next.store(count, std::memory_order_relaxed);
      return status;
    }
  }
}

void NodeWorkers::Loop() {
  sys::BindThisThread(options_.cpus);
  MutexLock lock(&mu_);
  ++running_;
  done_.SignalAll();
  while (true) {
    while (!stop_ && wanted_ == 0) work_.Wait(&mu_);
    if (stop_) return;
    --wanted_;
    Job* const job = job_;
    mu_.Unlock();
    const absl::Status status = Work(*job, false);
    mu_.Lock();
    if (!status.ok() && status_.ok()) status_ = status;
    if (--busy_ == 0) done_.SignalAll();
  }
}

}  // namespace hugepool
