// Planted defects: the proof that the tests can fail.
//
// A test build (--config=plants) can switch on one deliberate defect. The
// random and the chaos tests must catch each of them, every time they run. In
// any other build Planted() is always false and PlantDefect() refuses.
#ifndef HUGEPOOL_DAEMON_BASE_PLANT_H_
#define HUGEPOOL_DAEMON_BASE_PLANT_H_

#include <string_view>

#include "absl/status/status.h"

namespace hugepool {

enum class Defect {
  kNone = 0,
  kSkipClear,    // an extent cleared in place is not cleared
  kDoubleGrant,  // a granted extent stays in the free list
  kLosePage,     // a retired extent's pages are not planned for again
  kEarlyClean,   // Clean is published with the last page still to clear
  kPunchLive,    // a page of a live lease is punched
  kStaleLedger,  // the ledger does not learn of a grant
};

// The defects by the names of --plant, e.g. "skip-clear".
absl::Status PlantDefect(std::string_view name);

// True in a test build in which `defect` was planted. Thread-safe.
bool Planted(Defect defect);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_PLANT_H_
