// The ways in which this CPU can write zeros and copies.
#ifndef HUGEPOOL_DAEMON_CLEAR_STORE_ROUTINES_H_
#define HUGEPOOL_DAEMON_CLEAR_STORE_ROUTINES_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace hugepool {

// One way, for zeroing and for copying. Which one is fastest depends on the CPU
// and its memory, so it is measured (calibration.h), not assumed.
//
// Contract of both functions: addresses and `length` are multiples of 64, the
// ranges do not overlap; when they return, every store is visible to whoever is
// told of it (streaming stores are weakly ordered: they end with a fence).
struct StoreRoutine {
  const char* name;
  // Past the caches: the fastest for what nobody reads soon, and the wrong ones
  // for what somebody does.
  bool streams;
  bool (*supported)();
  void (*zero)(std::byte* start, size_t length);
  void (*copy)(std::byte* to, const std::byte* from, size_t length);
};

// Those that were compiled in, whether this CPU has them or not: the most
// promising first. `plain` is always the last.
const std::vector<StoreRoutine>& AllStoreRoutines();
// Those that this CPU has.
std::vector<const StoreRoutine*> SupportedStoreRoutines();
// nullptr: there is none of this name.
const StoreRoutine* FindStoreRoutine(std::string_view name);
// memset and memcpy: leaves what it wrote in the caches.
const StoreRoutine& PlainStores();

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_STORE_ROUTINES_H_
