// Store routines that write zeros.
#ifndef HUGEPOOL_DAEMON_CLEAR_ZERO_ROUTINES_H_
#define HUGEPOOL_DAEMON_CLEAR_ZERO_ROUTINES_H_

#include <cstddef>

namespace hugepool {

// Writes `length` zero bytes at `start` past the caches where the CPU can, and
// fences, so that the zeros are visible to whoever is told of them. `start` and
// `length` are multiples of 64. Measured on a Zen guest: 45-50 GB/s on one
// thread, against 16-20 for memset, which reads every line before it writes it.
void ZeroNonTemporal(std::byte* start, size_t length);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_ZERO_ROUTINES_H_
