#include "daemon/clear/piece_order.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace hugepool {

PieceOrder::PieceOrder(Bytes span, Bytes piece, Bytes target)
    : span_(span.value()),
      piece_(piece.value()),
      count_(span_ / piece_ + (span_ % piece_ != 0)),
      target_(target.value() / piece_) {
  HP_CHECK(target < span, "the target is in the span");
}

// With l pieces on the left of the target and r on its right: the longer side
// alone until both are as long, then pairs at equal distances, then the target.
uint64_t PieceOrder::IndexAt(uint64_t i) const {
  const uint64_t left = target_;
  const uint64_t right = count_ - 1 - target_;
  const uint64_t alone = std::max(left, right) - std::min(left, right);
  if (i < alone) return left > right ? i : count_ - 1 - i;
  const uint64_t pair = (i - alone) / 2;
  const uint64_t distance = std::min(left, right) - pair;
  return (i - alone) % 2 == 0 ? target_ - distance : target_ + distance;
}

PieceSpan PieceOrder::At(uint64_t i) const {
  const uint64_t offset = IndexAt(i) * piece_;
  return {Bytes(offset), Bytes(std::min(piece_, span_ - offset))};
}

uint64_t PieceOrder::DistanceAt(uint64_t i) const {
  const uint64_t index = IndexAt(i);
  return std::max(index, target_) - std::min(index, target_);
}

}  // namespace hugepool
