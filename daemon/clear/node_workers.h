// The threads of one node that populate and zero.
#ifndef HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_
#define HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "daemon/base/mutex.h"
#include "daemon/clear/engine.h"

namespace hugepool {

// Cuts a span into chunks and has them done by the node's threads, the caller's
// being one of them. One Run at a time (the node's steward).
//
// Threads: as many as asked for, bound to the node's CPUs. Inside one extent
// fallocate() would hold the inode lock and not scale; MADV_POPULATE_WRITE on
// separate parts does (9.5 -> 15.5 GB/s on two threads where this was measured).
class NodeWorkers : public Engine {
 public:
  // `cpus` empty: not bound. `threads` is at least 1, the caller included.
  NodeWorkers(const std::vector<int>& cpus, int threads);
  ~NodeWorkers() override;

  absl::Status Populate(sys::HugeFile& file, Bytes from, Bytes to) override;
  absl::Status Zero(sys::HugeFile& file, Bytes from, Bytes to) override;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  using Piece = std::function<absl::Status(Bytes offset, Bytes length)>;
  struct Job {
    Bytes from;
    Bytes to;
    Bytes chunk;
    Piece piece;
    // relaxed: a ticket dispenser. What the pieces wrote is published by the
    // mutex that the end of the job passes.
    std::atomic<uint64_t> next{0};
  };

  absl::Status Run(Bytes from, Bytes to, Bytes chunk, Piece piece);
  absl::Status Work(Job& job);
  void Loop(const std::vector<int>& cpus);

  Mutex mu_;
  CondVar work_;
  CondVar done_;
  Job* job_ HP_GUARDED_BY(mu_) = nullptr;
  uint64_t job_number_ HP_GUARDED_BY(mu_) = 0;
  int busy_ HP_GUARDED_BY(mu_) = 0;
  absl::Status status_ HP_GUARDED_BY(mu_);
  bool stop_ HP_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_
