// A counter that many threads add to without disturbing each other.
#ifndef HUGEPOOL_DAEMON_BASE_STRIPED_COUNTER_H_
#define HUGEPOOL_DAEMON_BASE_STRIPED_COUNTER_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace hugepool {

// What one thread writes all the time must not share a line with what another
// one does.
inline constexpr int kCacheLineBytes = 64;
inline constexpr uint32_t kStripes = 16;

// The stripe of the calling thread, always the same. More threads than kStripes
// share some.
inline uint32_t ThisThreadsStripe() {
  // relaxed: the numbers only have to be spread out.
  static std::atomic<uint32_t> threads{0};
  static thread_local const uint32_t stripe =
      threads.fetch_add(1, std::memory_order_relaxed) % kStripes;
  return stripe;
}

// For figures that people read: what is decided by a count is counted under the
// lock that guards the decision.
class StripedCounter {
 public:
  StripedCounter() = default;
  StripedCounter(const StripedCounter&) = delete;
  StripedCounter& operator=(const StripedCounter&) = delete;

  void Add(uint64_t n) {
    // relaxed: tells nothing about other memory.
    stripes_[ThisThreadsStripe()].n.fetch_add(n, std::memory_order_relaxed);
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
