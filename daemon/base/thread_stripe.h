// Which of several cache lines a thread writes to, where many threads count.
#ifndef HUGEPOOL_DAEMON_BASE_THREAD_STRIPE_H_
#define HUGEPOOL_DAEMON_BASE_THREAD_STRIPE_H_

#include <cstdint>

namespace hugepool {

// What one thread writes all the time must not share a line with what another
// one does.
inline constexpr int kCacheLineBytes = 64;
inline constexpr uint32_t kStripes = 32;

// Each thread has a stripe to itself, which goes to another one after its end
// (what it wrote there happened before). When there are more threads than that,
// the others share the last stripe.
struct ThreadStripe {
  uint32_t index = kStripes;  // not chosen yet
  // No other thread has it.
  bool alone = false;
};

// Of the calling thread; ThisThreadsStripe makes it.
inline thread_local constinit ThreadStripe this_threads_stripe;
void ChooseStripe();

inline ThreadStripe ThisThreadsStripe() {
  if (this_threads_stripe.index == kStripes) ChooseStripe();
  return this_threads_stripe;
}

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_THREAD_STRIPE_H_
