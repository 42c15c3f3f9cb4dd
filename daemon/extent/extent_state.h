// The states of an extent and the moves between them. docs/extent_lifecycle.md
// shows the same as a table; extent_state_test checks every cell.
#ifndef HUGEPOOL_DAEMON_EXTENT_EXTENT_STATE_H_
#define HUGEPOOL_DAEMON_EXTENT_EXTENT_STATE_H_

#include <cstdint>

namespace hugepool {

// The numbers are part of the ledger's format: never reuse one.
enum class ExtentState : uint8_t {
  kEmpty = 0,       // the slot is free
  kPopulating = 1,  // being made, or grown; owned by a work item
  kClean = 2,       // every byte zero, nobody but the daemon can reach it
  kGranted = 3,     // promised to a lease, not yet acknowledged
  kHeld = 4,        // a client has it
  kReturning = 5,   // its lease ended, somebody may still hold the memory
  kProbing = 6,     // being asked about; owned by a work item
  kDirty = 7,       // nobody holds it, to be cleared in place
  kClearing = 8,    // being cleared in place; owned by a work item
  kRetiring = 9,    // its pages go back to the kernel
  // Held, and released pages of it are given back; owned by a work item.
  kSplitting = 10,
  // Granted, and filled with a copy or checked before it is sent; owned by a
  // work item.
  kPreparing = 11,
  kVerifying = 12,  // clean, and being looked at; owned by a work item
  kBare = 13,       // made for one waiting copy: a file, and no page yet
};
inline constexpr int kExtentStates = 14;

const char* ToString(ExtentState state);

// Whether the lifecycle has this move.
bool CanMove(ExtentState from, ExtentState to);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_EXTENT_EXTENT_STATE_H_
