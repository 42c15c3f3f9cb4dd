#include "daemon/extent/extent_state.h"

#include <array>
#include <cstddef>

namespace hugepool {
namespace {

using enum ExtentState;

constexpr uint16_t Bit(ExtentState s) {
  return static_cast<uint16_t>(1u << static_cast<int>(s));
}

// Where each state may go; index is the state left.
constexpr std::array<uint16_t, kExtentStates> kMoves = {
    /* kEmpty */ Bit(kPopulating),
    /* kPopulating */ Bit(kClean) | Bit(kRetiring) | Bit(kEmpty) | Bit(kBare),
    // Growing a clean extent to order populates it again.
    /* kClean */ Bit(kGranted) | Bit(kPopulating) | Bit(kRetiring) |
        Bit(kVerifying),
    // A descriptor once sent cannot be recalled: a roll-back is Returning. Back
    // to Clean only what was never opened for anybody; if it has no pages either,
    // it ends.
    /* kGranted */ Bit(kHeld) | Bit(kReturning) | Bit(kClean) |
        Bit(kPreparing) | Bit(kRetiring),
    // A MEMORY lease is asked about while it lives.
    /* kHeld */ Bit(kReturning) | Bit(kProbing) | Bit(kRetiring) |
        Bit(kSplitting),
    // Straight to Retiring: let go, and told that the inode is gone.
    /* kReturning */ Bit(kProbing) | Bit(kRetiring),
    /* kProbing */ Bit(kReturning) | Bit(kHeld) | Bit(kDirty) | Bit(kRetiring),
    /* kDirty */ Bit(kClearing) | Bit(kRetiring),
    /* kClearing */ Bit(kClean) | Bit(kDirty) | Bit(kRetiring),
    /* kRetiring */ Bit(kEmpty),
    /* kSplitting */ Bit(kHeld) | Bit(kReturning),
    // Whatever came of it: what becomes of the grant is its lease's business.
    /* kPreparing */ Bit(kGranted),
    /* kVerifying */ Bit(kClean) | Bit(kRetiring),
    /* kBare */ Bit(kGranted) | Bit(kRetiring),
};

constexpr std::array<const char*, kExtentStates> kNames = {
    "empty",     "populating", "clean",    "granted",  "held",
    "returning", "probing",    "dirty",    "clearing", "retiring",
    "splitting", "preparing",  "verifying", "bare"};

}  // namespace

const char* ToString(ExtentState state) {
  const auto i = static_cast<size_t>(state);
  return i < kNames.size() ? kNames[i] : "unknown";
}

bool CanMove(ExtentState from, ExtentState to) {
  const auto i = static_cast<size_t>(from);
  return i < kMoves.size() && (kMoves[i] & Bit(to)) != 0;
}

}  // namespace hugepool
