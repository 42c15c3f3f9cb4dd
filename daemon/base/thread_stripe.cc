#include "daemon/base/thread_stripe.h"

#include <atomic>
#include <bit>

namespace hugepool {
namespace {

constexpr uint32_t kShared = kStripes - 1;
static_assert(kStripes == 32, "one bit each");

// Bits of the stripes that nobody has.
std::atomic<uint32_t> free_stripes{~uint32_t{0} & ~(uint32_t{1} << kShared)};

// Gives the stripe back at the end of its thread.
class Owner {
 public:
  ~Owner() {
    const ThreadStripe had = this_threads_stripe;
    // For what counts in a destructor that runs even later.
    this_threads_stripe = {kShared, false};
    // release: what was written to the stripe; partner of the exchange below.
    if (had.alone) {
      free_stripes.fetch_or(uint32_t{1} << had.index,
                            std::memory_order_release);
    }
  }
  void Touch() {}
};
thread_local Owner owner;

}  // namespace

void ChooseStripe() {
  owner.Touch();
  // relaxed: the exchange below says whether it was true.
  uint32_t free = free_stripes.load(std::memory_order_relaxed);
  while (free != 0) {
    const auto index = static_cast<uint32_t>(std::countr_zero(free));
    // acquire: what the last one wrote there; partner of the release above.
    if (free_stripes.compare_exchange_weak(free, free & (free - 1),
                                           std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
      this_threads_stripe = {index, true};
      return;
    }
  }
  this_threads_stripe = {kShared, false};
}

}  // namespace hugepool
