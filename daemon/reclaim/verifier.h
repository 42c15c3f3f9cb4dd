// Has clean memory looked at: for operators who ask, and a little now and then.
#ifndef HUGEPOOL_DAEMON_RECLAIM_VERIFIER_H_
#define HUGEPOOL_DAEMON_RECLAIM_VERIFIER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/base/mutex.h"
#include "daemon/pool/pool.h"

namespace hugepool {

// Stewards do the looking; this tells their pools what is wanted and waits for
// it. Thread-safe. Lock order: mu_, then a pool's.
class Verifier {
 public:
  struct Deps {
    std::vector<Pool*> pools;
    Executor* executor;
    const Clock* clock;
    // There is work for the stewards of this pool.
    std::function<void(const Pool&)> wake;
    // Between two samples of each pool; infinite: none are taken.
    absl::Duration sample_every = absl::InfiniteDuration();
  };
  using Result = Pool::VerifyResult;
  using Done = std::function<void(absl::StatusOr<Result>)>;

  // Of each pool at a time: some milliseconds of one thread, so that a pool of
  // a tebibyte is seen once in a week or two, at a thousandth of a percent of a
  // CPU.
  static constexpr Bytes kSample = MiB(64);

  explicit Verifier(Deps deps) : deps_(std::move(deps)) {}

  // Begins to take samples.
  void Start();
  // Looks at all clean memory of `pools`. `done` is called once, on the
  // executor, or at once with UNAVAILABLE after Stop().
  void Verify(const std::vector<Pool*>& pools, Done done) HP_EXCLUDES(mu_);
  // Whoever still waits is told UNAVAILABLE.
  void Stop() HP_EXCLUDES(mu_);

 private:
  struct Pass {
    uint64_t id = 0;
    std::vector<Pool*> left;
    Result result;
    Done done;
  };
  void Sample();
  void Look() HP_EXCLUDES(mu_);

  const Deps deps_;
  Mutex mu_;
  std::list<Pass> passes_ HP_GUARDED_BY(mu_);
  uint64_t next_ HP_GUARDED_BY(mu_) = 1;
  bool looking_ HP_GUARDED_BY(mu_) = false;  // a Look() is posted
  bool stopped_ HP_GUARDED_BY(mu_) = false;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_VERIFIER_H_
