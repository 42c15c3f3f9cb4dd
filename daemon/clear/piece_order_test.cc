#include "daemon/clear/piece_order.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hugepool {
namespace {

// What the class promises, for one order.
void Check(Bytes span, Bytes piece, Bytes target) {
  SCOPED_TRACE(::testing::Message() << "span " << span << ", piece " << piece
                                    << ", target " << target);
  const PieceOrder order(span, piece, target);
  ASSERT_GT(order.count(), 0u);
  std::vector<bool> seen(order.count());
  Bytes sum;
  uint64_t distance = order.count();
  for (uint64_t i = 0; i < order.count(); ++i) {
    const PieceSpan at = order.At(i);
    ASSERT_EQ(at.offset.value() % piece.value(), 0u);
    const uint64_t index = at.offset.value() / piece.value();
    ASSERT_LT(index, order.count());
    ASSERT_FALSE(seen[index]) << "piece " << index << " comes twice";
    seen[index] = true;
    ASSERT_GT(at.length, Bytes(0));
    ASSERT_LE(at.length, piece);
    ASSERT_LE(at.offset + at.length, span);
    sum += at.length;
    ASSERT_LE(order.DistanceAt(i), distance) << "at " << i;
    distance = order.DistanceAt(i);
  }
  EXPECT_EQ(sum, span);
  EXPECT_EQ(distance, 0u);
  const PieceSpan last = order.At(order.count() - 1);
  EXPECT_LE(last.offset, target);
  EXPECT_GT(last.offset + last.length, target);
}

TEST(PieceOrder, FromBothEndsInwards) {
  const PieceOrder order(KiB(20), KiB(4), KiB(9));
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < order.count(); ++i) {
    offsets.push_back(order.At(i).offset.value() >> 10);
  }
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 16, 4, 12, 8}));
}

TEST(PieceOrder, TheLongerSideFirst) {
  const PieceOrder right(KiB(20), KiB(4), KiB(4));
  EXPECT_EQ(right.At(0).offset, KiB(16));
  EXPECT_EQ(right.At(1).offset, KiB(12));
  EXPECT_EQ(right.At(2).offset, KiB(0));
  const PieceOrder left(KiB(20), KiB(4), KiB(12));
  EXPECT_EQ(left.At(0).offset, KiB(0));
  EXPECT_EQ(left.At(1).offset, KiB(4));
  EXPECT_EQ(left.At(4).offset, KiB(12));
}

TEST(PieceOrder, FirstAndLastTargets) {
  for (const Bytes span : {MiB(2), GiB(1)}) {
    for (const Bytes piece : {KiB(4), KiB(64), MiB(1)}) {
      Check(span, piece, Bytes(0));
      Check(span, piece, span - Bytes(1));
      Check(span, piece, piece);
      Check(span, piece, piece - Bytes(1));
    }
  }
}

TEST(PieceOrder, EveryTargetOfSmallSpans) {
  for (uint64_t span = 1; span <= 40; ++span) {
    for (uint64_t piece = 1; piece <= span + 1; ++piece) {
      for (uint64_t target = 0; target < span; ++target) {
        Check(Bytes(span), Bytes(piece), Bytes(target));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(PieceOrder, AnyPageSizeAndTarget) {
  std::mt19937_64 random(20);
  for (int round = 0; round < 200; ++round) {
    const Bytes span = Bytes(uint64_t{1} << (12 + random() % 22));
    // As many pieces as are soon looked at, mostly not a divisor.
    const Bytes piece(span.value() / (1 + random() % 4096) + 1);
    Check(span, piece, Bytes(random() % span.value()));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace hugepool
