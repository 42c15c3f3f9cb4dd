// How many threads to use: the knee of the curve, found by looking.
#ifndef HUGEPOOL_DAEMON_CLEAR_THREAD_TUNER_H_
#define HUGEPOOL_DAEMON_CLEAR_THREAD_TUNER_H_

#include <array>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/units.h"

namespace hugepool {

// Memory bandwidth ends somewhere: beyond that more threads only cost CPU, and
// on some machines make it slower. Where, depends on the machine, on what it is
// doing, and on the kind of work. So the first jobs are done with all threads, with
// half of them, a quarter …; from then on with the fewest that reach 97 % of the
// best rate seen. From the top, since the first jobs may be those that somebody
// waits for.
// Now and then a job with half or twice as many looks whether that still holds.
//
// Not thread-safe. Knows no clock: it is told how long jobs took.
class ThreadTuner {
 public:
  // What is reached with the chosen count, as a part of the best over all.
  static constexpr double kGoodEnough = 0.97;
  // Jobs per count; their median counts.
  static constexpr int kSamples = 3;
  // A job between two looks at neighbours of the chosen count.
  static constexpr int kReviewEvery = 64;
  // Smaller jobs say more about handing over than about memory.
  static constexpr Bytes kSmallestSample = MiB(64);

  explicit ThreadTuner(int max_threads);

  // For the next job.
  int threads() const;
  // A job was done by so many threads.
  void Note(int threads, Bytes work, absl::Duration took);

  // Whether all counts that matter were tried.
  bool settled() const { return settled_; }
  // The median rate with the chosen count, or the one used last where none is
  // chosen yet; bytes per second; 0: not known yet.
  double rate() const;

 private:
  struct Candidate {
    int threads = 1;
    std::array<double, kSamples> samples = {};  // the newest ones
    int count = 0;                              // ever
    double Median() const;
  };
  void Advance();
  void Choose();

  std::vector<Candidate> candidates_;  // 1, 2, 4 … and the most
  size_t trying_ = 0;                  // while not settled
  size_t chosen_ = 0;
  bool settled_ = false;
  int jobs_ = 0;  // since the last review
  int review_ = 0;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_THREAD_TUNER_H_
