#include "daemon/clear/node_workers.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "daemon/clear/zero_routines.h"

namespace hugepool {
namespace {

// Smallest piece worth a hand-over. Populating 32 MiB takes some 3 ms, zeroing
// 8 MiB in place some 0.2 ms; handing over costs about 10 us.
constexpr Bytes kPopulateChunk = MiB(32);
constexpr Bytes kZeroChunk = MiB(8);

void BindTo(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  }
  // A cpuset may forbid it: then the thread runs where it may.
  (void)sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

NodeWorkers::NodeWorkers(const std::vector<int>& cpus, int threads) {
  for (int i = 1; i < threads; ++i) {
    threads_.emplace_back([this, cpus] { Loop(cpus); });
    pthread_setname_np(threads_.back().native_handle(), "hp-worker");
  }
}

NodeWorkers::~NodeWorkers() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    work_.SignalAll();
  }
  for (std::thread& t : threads_) t.join();
}

absl::Status NodeWorkers::Populate(sys::HugeFile& file, Bytes from, Bytes to) {
  // A chunk is whole pages: a 1G page is one.
  const Bytes chunk = std::max(kPopulateChunk, file.page_size().bytes());
  return Run(from, to, chunk, [&file](Bytes offset, Bytes length) {
    return file.Populate(offset, length);
  });
}

absl::Status NodeWorkers::Zero(sys::HugeFile& file, Bytes from, Bytes to) {
  return Run(from, to, kZeroChunk, [&file](Bytes offset, Bytes length) {
    return file.Zero(offset, length, &ZeroNonTemporal);
  });
}

absl::Status NodeWorkers::Work(Job& job) {
  const uint64_t size = (job.to - job.from).value();
  const uint64_t chunk = job.chunk.value();
  while (true) {
    const uint64_t start = job.next.fetch_add(1, std::memory_order_relaxed) *
                           chunk;
    if (start >= size) return absl::OkStatus();
    const uint64_t length = std::min(chunk, size - start);
    absl::Status status = job.piece(job.from + Bytes(start), Bytes(length));
    if (!status.ok()) {
      // Nobody starts another piece: the rest is not wanted any more.
      job.next.store(size / chunk + 1, std::memory_order_relaxed);
      return status;
    }
  }
}

absl::Status NodeWorkers::Run(Bytes from, Bytes to, Bytes chunk, Piece piece) {
  Job job;
  job.from = from;
  job.to = to;
  job.chunk = chunk;
  job.piece = std::move(piece);
  if (threads_.empty() || to - from <= chunk) return Work(job);
  {
    MutexLock lock(&mu_);
    job_ = &job;
    ++job_number_;
    status_ = absl::OkStatus();
    busy_ = static_cast<int>(threads_.size());
    work_.SignalAll();
  }
  const absl::Status mine = Work(job);
  MutexLock lock(&mu_);
  while (busy_ > 0) done_.Wait(&mu_);
  job_ = nullptr;
  return mine.ok() ? status_ : mine;
}

void NodeWorkers::Loop(const std::vector<int>& cpus) {
  BindTo(cpus);
  uint64_t seen = 0;
  while (true) {
    Job* job = nullptr;
    {
      MutexLock lock(&mu_);
      while (!stop_ && job_number_ == seen) work_.Wait(&mu_);
      if (stop_) return;
      seen = job_number_;
      job = job_;
    }
    const absl::Status status = Work(*job);
    MutexLock lock(&mu_);
    if (!status.ok() && status_.ok()) status_ = status;
    if (--busy_ == 0) done_.SignalAll();
  }
}

}  // namespace hugepool
