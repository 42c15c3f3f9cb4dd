// The threads of one node that populate and zero.
#ifndef HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_
#define HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/clear/engine.h"
#include "daemon/clear/piece_order.h"
#include "daemon/clear/store_routines.h"
#include "daemon/clear/thread_tuner.h"
#include "daemon/clear/throttle.h"

namespace hugepool {

// Cuts a span into pieces and has them done by the node's threads, the caller's
// being one of them. One job at a time (the node's steward).
//
// The pieces come from both ends inwards, the one at the target last, and 256
// KiB of that by ordinary stores: they are what a holder touches first. Threads
// share one counter, so nobody waits for a slow one; one large span by many
// threads and many small ones are the same.
//
// Populating: inside one extent fallocate() would hold the inode lock and not
// scale; MADV_POPULATE_WRITE on separate parts does (9.5 -> 15.5 GB/s on two
// threads where this was measured).
class NodeWorkers : public Engine {
 public:
  struct Options {
    std::vector<int> cpus;  // to run on; empty: anywhere
    int threads = 1;        // at most, the caller included
    // Finds out how many of them are worth it, for each kind of work; else all
    // are used that a span has work for.
    bool tune = false;
    // nullptr: the most promising that this CPU has.
    const StoreRoutine* stores = nullptr;
    const Clock* clock = Clock::Real();
    // Of background jobs; nullopt: no cap.
    std::optional<Bytes> bandwidth;
  };
  // What it has found out, for people.
  struct Rate {
    int threads = 0;              // that the next large job will use
    double bytes_per_second = 0;  // 0: not known yet
  };

  // Returns when all threads run: no job has to wait for one to be made.
  explicit NodeWorkers(const Options& options);
  ~NodeWorkers() override;

  absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                        Pace pace) override;
  absl::Status Zero(sys::HugeFile& file, const FileSpan& span,
                    Pace pace) override;
  absl::Status Copy(sys::HugeFile& file, const std::vector<CopyPart>& parts,
                    Bytes target, Pace pace) override;
  absl::StatusOr<sys::HugeFile::Stray> Verify(sys::HugeFile& file,
                                              const FileSpan& span,
                                              Pace pace) override;
  void Hurry() override HP_EXCLUDES(mu_);
  void Calm() override HP_EXCLUDES(mu_);
  void Nudge() override HP_EXCLUDES(mu_);
  void SetMeanwhile(std::function<void()> meanwhile) override {
    meanwhile_ = std::move(meanwhile);
  }

  // Ends the job at hand with CANCELLED after at most 1 MiB of zeroing, or one
  // piece of populating, a thread; and every later one at once. What was being
  // worked on is neither populated nor zero then. From any thread.
  void Cancel() HP_EXCLUDES(mu_);

  // A new cap on background jobs, the one at hand included; nullopt: none. From
  // any thread.
  void SetBandwidth(std::optional<Bytes> per_second) HP_EXCLUDES(mu_);

  const StoreRoutine& stores() const { return *stores_; }
  Rate zeroing() const HP_EXCLUDES(mu_);
  Rate populating() const HP_EXCLUDES(mu_);

 private:
  // Does one piece; `last`: it is the one at the target.
  using Piece = std::function<absl::Status(PieceSpan at, bool last)>;
  struct Job {
    // `target` is a part of the span, counted from its beginning.
    Job(Bytes size, Bytes piece_size, Bytes target, Pace pace, Piece piece)
        : order(size, piece_size, target),
          pace(pace),
          piece(std::move(piece)) {}
    const PieceOrder order;
    const Pace pace;
    const Piece piece;
    // relaxed: a ticket dispenser. What the pieces wrote is published by the
    // mutex that the end of the job passes.
    std::atomic<uint64_t> next{0};
  };

  // `smallest`: less is not worth a thread of its own.
  absl::Status Run(Job& job, Bytes size, Bytes smallest, ThreadTuner* tuner)
      HP_EXCLUDES(mu_);
  absl::Status Share(Job& job, int threads) HP_EXCLUDES(mu_);
  // `caller`: on the thread of the job's caller.
  absl::Status Work(Job& job, bool caller) HP_EXCLUDES(mu_);
  // Until the cap allows for `work` more, or somebody hurries.
  void WaitForTurn(Bytes work, bool caller) HP_EXCLUDES(mu_);
  // What SetMeanwhile() gave, after a Nudge(); false: there was none.
  bool DoOtherWork() HP_REQUIRES(mu_);
  void Loop();

  const Options options_;
  const StoreRoutine* const stores_;
  // relaxed: once set it stays; being seen a piece later is what is promised.
  std::atomic<bool> cancelled_{false};

  mutable Mutex mu_;
  CondVar work_;
  CondVar done_;
  CondVar turn_;
  Throttle throttle_ HP_GUARDED_BY(mu_);
  uint64_t caps_set_ HP_GUARDED_BY(mu_) = 0;  // SetBandwidth() calls
  bool hurried_ HP_GUARDED_BY(mu_) = false;
  bool nudged_ HP_GUARDED_BY(mu_) = false;
  std::function<void()> meanwhile_;  // set before the first job
  ThreadTuner zero_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner populate_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner copy_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner verify_tuner_ HP_GUARDED_BY(mu_);
  Job* job_ HP_GUARDED_BY(mu_) = nullptr;
  int wanted_ HP_GUARDED_BY(mu_) = 0;   // threads that shall still join the job
  int busy_ HP_GUARDED_BY(mu_) = 0;     // that shall or did, and have not ended
  int running_ HP_GUARDED_BY(mu_) = 0;  // threads that have started
  absl::Status status_ HP_GUARDED_BY(mu_);
  bool stop_ HP_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_
