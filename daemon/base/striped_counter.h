// A counter that many threads add to without disturbing each other.
#ifndef HUGEPOOL_DAEMON_BASE_STRIPED_COUNTER_H_
#define HUGEPOOL_DAEMON_BASE_STRIPED_COUNTER_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "daemon/base/thread_stripe.h"

namespace hugepool {

// For figures that people read: what is decided by a count is counted under the
// lock that guards the decision.
class StripedCounter {
 public:
  StripedCounter() = default;
  StripedCounter(const StripedCounter&) = delete;
  StripedCounter& operator=(const StripedCounter&) = delete;

  void Add(uint64_t n) {
    const ThreadStripe stripe = ThisThreadsStripe();
    std::atomic<uint64_t>& sum = stripes_[stripe.index].n;
    // relaxed: tells nothing about other memory.
    if (stripe.alone) {
      // Nobody else writes it. Half the time of a fetch_add.
      sum.store(sum.load(std::memory_order_relaxed) + n,
                std::memory_order_relaxed);
    } else {
      sum.fetch_add(n, std::memory_order_relaxed);
    }
  }
  // Everything that was added before, and perhaps some of what is being added.
  uint64_t Read() const {
    uint64_t sum = 0;
    // relaxed: partner of Add.
    for (const Stripe& s : stripes_) sum += s.n.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(kCacheLineBytes) Stripe {
    std::atomic<uint64_t> n{0};
  };
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_STRIPED_COUNTER_H_
