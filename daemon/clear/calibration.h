// Which store routine is the fastest on this memory.
#ifndef HUGEPOOL_DAEMON_CLEAR_CALIBRATION_H_
#define HUGEPOOL_DAEMON_CLEAR_CALIBRATION_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "daemon/clear/store_routines.h"

namespace hugepool {

struct RoutineRate {
  const StoreRoutine* routine = nullptr;
  double zero_rate = 0;  // bytes per second of one thread
};

// Zeroes `memory` with every routine that this CPU has, in turns, a few times;
// the fastest first. `size` is a multiple of 64 and well above what the caches
// hold, else the plain stores win unduly. Takes some 10 ms a routine for 64 MiB;
// a routine that is very slow (an emulated CPU) is tried once.
std::vector<RoutineRate> MeasureStores(std::byte* memory, Bytes size,
                                       const Clock& clock);

// The routine of that name, or for "auto" the fastest of `rates`, or the most
// promising where nothing was measured. INVALID_ARGUMENT, with the names that
// there are, where this CPU has none of that name.
absl::StatusOr<const StoreRoutine*> ChooseStores(
    std::string_view name, const std::vector<RoutineRate>& rates);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_CALIBRATION_H_
