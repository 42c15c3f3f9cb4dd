// The threads of one node that populate and zero.
#ifndef HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_
#define HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/clear/engine.h"
#include "daemon/clear/pacer.h"
#include "daemon/clear/piece_order.h"
#include "daemon/clear/store_routines.h"
#include "daemon/clear/thread_tuner.h"
#include "daemon/sys/sched_class.h"

namespace hugepool {

// Cuts a span into pieces and has them done by the node's threads. One job at a
// time (the node's steward).
//
// The pieces come from both ends inwards, the one at the target last, and 256
// KiB of that by ordinary stores: they are what a holder touches first. Threads
// share one counter, so nobody waits for a slow one; one large span by many
// threads and many small ones are the same.
//
// Populating: inside one extent fallocate() would hold the inode lock and not
// scale; MADV_POPULATE_WRITE on separate parts does (9.5 -> 15.5 GB/s on two
// threads where this was measured).
//
// Manners. Background jobs are the helpers'; their caller waits, does other
// work meanwhile, and is there when somebody hurries: then it takes part.
// Zeroing in place and verifying go to the idle class, where `Options::sched`
// allows it, for a few pieces at a time. A thread of the idle class may not run
// for a second beside busy ones, and cannot help itself. So it takes no lock,
// waits for nothing and faults no page in, since a starved holder of a lock
// would stop those who want it: only QuietPieces() runs there. And the caller
// brings it back from outside when somebody hurries or ends the job.
// Populating and copying are never idle class. The kernel populates under
// mmap_lock and a mutex out of a small table that the faults of the whole
// system share, and locks pages of a holder to read them. Populating small pages
// is nice instead, for 2 MiB at a time: a tenth of a CPU's time is enough to be
// through with that in two milliseconds. A 1G page would take a second, so it has
// the cap alone.
class NodeWorkers : public Engine {
 public:
  struct Options {
    std::vector<int> cpus;  // to run on; empty: anywhere
    // At most, for one job. So many helpers are made.
    int threads = 1;
    // Finds out how many of them are worth it, for each kind of work; else all
    // are used that a span has work for.
    bool tune = false;
    // nullptr: the most promising that this CPU has.
    const StoreRoutine* stores = nullptr;
    const Clock* clock = Clock::Real();
    // Of background jobs; nullopt: no cap.
    std::optional<Bytes> bandwidth;
    // How much others wait, and from which percentage on background jobs back
    // off (back_off.h); nullptr, nullopt: they do not.
    const sys::Pressure* pressure = nullptr;
    std::optional<double> pressure_limit;
    // For zeroing in the background; nullptr: in the normal class. A thread
    // that went idle must be able to come back (sys::CanLeaveIdleClass).
    sys::SchedClass* sched = nullptr;
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
  absl::Status Fill(sys::HugeFile& file, const std::vector<CopyPart>& parts,
                    Bytes target, Pace pace) override;
  // By the rates of large jobs so far; true before there were some.
  bool FillsFaster() const override HP_EXCLUDES(mu_);
  absl::StatusOr<sys::HugeFile::Stray> Verify(sys::HugeFile& file,
                                              const FileSpan& span,
                                              Pace pace) override;
  void Hurry() override HP_EXCLUDES(mu_);
  void Calm() override { pacer_.Calm(); }
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
  void SetBandwidth(std::optional<Bytes> per_second) {
    pacer_.SetBandwidth(per_second);
  }
  // Likewise the limit of others' pressure, in percent; nullopt: off.
  void SetPressureLimit(std::optional<double> percent) {
    pacer_.SetPressureLimit(percent);
  }

  const StoreRoutine& stores() const { return *stores_; }
  Rate zeroing() const HP_EXCLUDES(mu_);
  Rate populating() const HP_EXCLUDES(mu_);
  Pacer::State pace() const { return pacer_.state(); }

 private:
  // Does one piece; `last`: it is the one at the target.
  using Piece = std::function<absl::Status(PieceSpan at, bool last)>;
  struct Job {
    // `target` is a part of the span, counted from its beginning.
    Job(Bytes size, Bytes piece_size, Bytes target, Pace pace, Piece piece)
        : order(size, piece_size, target),
          size(size),
          pace(pace),
          piece(std::move(piece)) {}
    const PieceOrder order;
    const Bytes size;
    const Pace pace;
    const Piece piece;
    ThreadTuner* tuner = nullptr;  // of its kind of work; used under mu_
    // Pieces that a helper may take at a time while it stands back; 0: one, and
    // it does not.
    uint64_t quiet_batch = 0;
    // It stands back by being nice, not in the idle class.
    bool nice = false;
    // relaxed: a ticket dispenser. What the pieces wrote is published by the
    // mutex that the end of the job passes.
    std::atomic<uint64_t> next{0};
  };
  struct Helper {
    std::thread thread;
    pid_t id = 0;  // written before it counts as running
    // relaxed: the caller looks again every millisecond, and bringing back one
    // that is normal already does nothing.
    std::atomic<bool> idle{false};
  };
  // Pieces [first, end) of a job.
  struct Batch {
    uint64_t first = 0;
    uint64_t end = 0;
  };

  // Lets helpers do it in the idle class, where that may be: what only touches
  // this mapped, whole span of a file that nobody else has.
  absl::Status AllowIdle(Job& job, sys::HugeFile& file, const FileSpan& span);
  // `smallest`: less is not worth a thread of its own.
  absl::Status Run(Job& job, Bytes smallest, ThreadTuner* tuner)
      HP_EXCLUDES(mu_);
  absl::Status Share(Job& job, int helpers) HP_EXCLUDES(mu_);
  // Takes pieces until there are none. `self`: the helper whose thread this is,
  // or nullptr.
  absl::Status Work(Job& job, Helper* self) HP_EXCLUDES(mu_);
  // The pieces of a batch, with a look at the stop flag before each.
  absl::Status Pieces(Job& job, Batch batch) HP_EXCLUDES(mu_);
  // The same, standing back for others.
  absl::Status QuietPieces(Job& job, Batch batch, Helper& self)
      HP_EXCLUDES(mu_);
  // Brings back whoever stands back.
  void RaiseHelpers() HP_EXCLUDES(mu_);
  bool Urgent(const Job& job) const {
    return job.pace == Pace::kUrgent || pacer_.hurried();
  }
  // On the caller's thread.
  void LookAtPressure(const Job& job) HP_EXCLUDES(mu_);
  // What SetMeanwhile() gave, after a Nudge(); false: there was none.
  bool DoOtherWork() HP_REQUIRES(mu_);
  void Loop(Helper& self);

  const Options options_;
  const StoreRoutine* const stores_;
  // relaxed: a latch. Some helper could not leave the idle class: what the
  // start found has changed.
  std::atomic<bool> no_way_back_{false};

  Pacer pacer_;
  mutable Mutex mu_;
  CondVar work_;
  CondVar done_;
  bool nudged_ HP_GUARDED_BY(mu_) = false;
  std::function<void()> meanwhile_;  // set before the first job
  ThreadTuner zero_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner populate_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner copy_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner fill_tuner_ HP_GUARDED_BY(mu_);
  ThreadTuner verify_tuner_ HP_GUARDED_BY(mu_);
  Job* job_ HP_GUARDED_BY(mu_) = nullptr;
  int wanted_ HP_GUARDED_BY(mu_) = 0;   // helpers that shall still join the job
  int busy_ HP_GUARDED_BY(mu_) = 0;     // that shall or did, and have not ended
  int running_ HP_GUARDED_BY(mu_) = 0;  // that have started
  absl::Status status_ HP_GUARDED_BY(mu_);
  bool stop_ HP_GUARDED_BY(mu_) = false;
  // Made by the constructor, of one length ever since.
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_NODE_WORKERS_H_
