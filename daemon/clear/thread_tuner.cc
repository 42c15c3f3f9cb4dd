#include "daemon/clear/thread_tuner.h"

#include <algorithm>

namespace hugepool {
namespace {

// A count that is so much slower than a larger one was is below the knee, and
// those below it are not tried.
constexpr double kBelowTheKnee = 0.9;

}  // namespace

ThreadTuner::ThreadTuner(int max_threads) {
  const int most = std::max(1, max_threads);
  for (int n = 1; n < most; n *= 2) {
    candidates_.push_back(Candidate{.threads = n});
  }
  candidates_.push_back(Candidate{.threads = most});
  trying_ = candidates_.size() - 1;
}

double ThreadTuner::Candidate::Median() const {
  const int n = std::min(count, kSamples);
  if (n == 0) return 0;
  std::vector<double> sorted(samples.begin(), samples.begin() + n);
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

int ThreadTuner::threads() const {
  if (!settled_) return candidates_[trying_].threads;
  // The last job before a review ends is done by a neighbour.
  if (jobs_ + 1 < kReviewEvery) return candidates_[chosen_].threads;
  const bool up = review_ % 2 == 0;
  if (up && chosen_ + 1 < candidates_.size()) {
    return candidates_[chosen_ + 1].threads;
  }
  if (!up && chosen_ > 0) return candidates_[chosen_ - 1].threads;
  return candidates_[chosen_].threads;
}

void ThreadTuner::Note(int threads, Bytes work, absl::Duration took) {
  if (work < kSmallestSample || took <= absl::ZeroDuration()) return;
  const auto it =
      std::find_if(candidates_.begin(), candidates_.end(),
                   [&](const Candidate& c) { return c.threads == threads; });
  if (it == candidates_.end()) return;
  it->samples[static_cast<size_t>(it->count++) % kSamples] =
      static_cast<double>(work.value()) / absl::ToDoubleSeconds(took);
  if (!settled_) return Advance();
  if (++jobs_ < kReviewEvery) return;
  jobs_ = 0;
  ++review_;
  Choose();
}

void ThreadTuner::Advance() {
  if (candidates_[trying_].count < kSamples) return;
  double best = 0;
  for (size_t i = trying_ + 1; i < candidates_.size(); ++i) {
    best = std::max(best, candidates_[i].Median());
  }
  const bool below = candidates_[trying_].Median() < kBelowTheKnee * best;
  if (!below && trying_ > 0) {
    --trying_;
    return;
  }
  settled_ = true;
  Choose();
}

// The fewest threads that are good enough, among those that were tried.
void ThreadTuner::Choose() {
  double best = 0;
  for (const Candidate& c : candidates_) best = std::max(best, c.Median());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].Median() >= kGoodEnough * best) {
      chosen_ = i;
      return;
    }
  }
}

double ThreadTuner::rate() const {
  if (settled_) return candidates_[chosen_].Median();
  // Where the next count was not used yet, or never will be (a fixed number of
  // threads), what the one before it gave.
  const bool used = candidates_[trying_].count > 0;
  const size_t last = candidates_.size() - 1;
  return candidates_[used ? trying_ : std::min(trying_ + 1, last)].Median();
}

}  // namespace hugepool
