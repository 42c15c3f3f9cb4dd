// In which order the pieces of a span are worked on.
#ifndef HUGEPOOL_DAEMON_CLEAR_PIECE_ORDER_H_
#define HUGEPOOL_DAEMON_CLEAR_PIECE_ORDER_H_

#include <cstdint>

#include "daemon/base/units.h"

namespace hugepool {

// A part of a span, from its beginning.
struct PieceSpan {
  Bytes offset;
  Bytes length;

  friend bool operator==(PieceSpan, PieceSpan) = default;
};

// From both ends inwards, the piece that holds the target last: what is touched
// next is then what the caches saw last. After the kernel's process_huge_page(),
// which does the same for the 4 KiB parts of a huge page; here for spans and
// pieces of any size, for clearing and for copying alike.
//
// Piece `i` is computed, not stored, so several workers can share one order by
// sharing a counter. Immutable; thread-safe.
//
// For every order: each piece comes exactly once, together they are the span;
// the distance in pieces to the target never grows; the last one holds it.
class PieceOrder {
 public:
  // `span` and `piece` are more than 0, `target` is below `span`. Where `piece`
  // does not divide `span` the piece at its end is shorter.
  PieceOrder(Bytes span, Bytes piece, Bytes target);

  uint64_t count() const { return count_; }
  // The i-th piece to work on, i < count().
  PieceSpan At(uint64_t i) const;
  // How many pieces the i-th one is away from the target.
  uint64_t DistanceAt(uint64_t i) const;

 private:
  // Its index from the beginning of the span.
  uint64_t IndexAt(uint64_t i) const;

  const uint64_t span_;
  const uint64_t piece_;
  const uint64_t count_;
  const uint64_t target_;  // index of the piece that holds it
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_PIECE_ORDER_H_
