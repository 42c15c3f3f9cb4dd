#include "daemon/reclaim/verifier.h"

#include <utility>

namespace hugepool {
namespace {

// Pools do not tell when a pass is done: it can end with an extent that was
// lent.
constexpr absl::Duration kLookEvery = absl::Milliseconds(5);

}  // namespace

void Verifier::Start() {
  if (deps_.sample_every == absl::InfiniteDuration()) return;
  deps_.executor->PostAt(deps_.clock->Now() + deps_.sample_every,
                         [this] { Sample(); });
}

void Verifier::Sample() {
  {
    MutexLock lock(&mu_);
    if (stopped_) return;
  }
  for (Pool* pool : deps_.pools) {
    pool->SampleVerify(kSample);
    pool->RecountShrunk();
    deps_.wake(*pool);
  }
  Start();
}

void Verifier::Verify(const std::vector<Pool*>& pools, Done done) {
  bool stopped = false;
  {
    MutexLock lock(&mu_);
    stopped = stopped_;
    if (!stopped) {
      const uint64_t id = next_++;
      for (Pool* pool : pools) pool->StartVerify(id);
      passes_.push_back({id, pools, Result{}, std::move(done)});
      if (!std::exchange(looking_, true)) {
        deps_.executor->Post([this] { Look(); });
      }
    }
  }
  if (stopped) return done(absl::UnavailableError("the daemon is stopping"));
  for (Pool* pool : pools) deps_.wake(*pool);
}

void Verifier::Look() {
  std::list<Pass> ended;
  {
    MutexLock lock(&mu_);
    for (auto it = passes_.begin(); it != passes_.end();) {
      Pass& pass = *it;
      std::erase_if(pass.left, [&pass](Pool* pool) {
        const auto result = pool->FinishVerify(pass.id);
        if (!result.has_value()) return false;
        pass.result.verified += result->verified;
        pass.result.stray += result->stray;
        return true;
      });
      const auto here = it++;
      if (pass.left.empty()) ended.splice(ended.end(), passes_, here);
    }
    looking_ = !passes_.empty();
    if (looking_) {
      deps_.executor->PostAt(deps_.clock->Now() + kLookEvery,
                             [this] { Look(); });
    }
  }
  for (Pass& pass : ended) pass.done(pass.result);
}

void Verifier::Stop() {
  std::list<Pass> passes;
  {
    MutexLock lock(&mu_);
    stopped_ = true;
    passes.swap(passes_);
    for (const Pass& pass : passes) {
      for (Pool* pool : pass.left) pool->CancelVerify(pass.id);
    }
  }
  for (Pass& pass : passes) {
    pass.done(absl::UnavailableError("the daemon is stopping"));
  }
}

}  // namespace hugepool
