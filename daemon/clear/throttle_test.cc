#include "daemon/clear/throttle.h"

#include "gtest/gtest.h"

namespace hugepool {
namespace {

// Does pieces one after the other, each in no time, and waits as told.
absl::Duration TimeFor(Throttle* throttle, Bytes piece, int pieces,
                       absl::Time* now) {
  const absl::Time begin = *now;
  for (int i = 0; i < pieces; ++i) *now += throttle->Take(piece, *now);
  return *now - begin;
}

TEST(Throttle, KeepsTheRate) {
  for (const Bytes piece : {MiB(1), MiB(32), GiB(1)}) {
    Throttle throttle(GiB(4));
    absl::Time now = absl::UnixEpoch();
    const int pieces = static_cast<int>(GiB(40).value() / piece.value());
    const absl::Duration took = TimeFor(&throttle, piece, pieces, &now);
    // The last piece is begun when those before it are paid for.
    const absl::Duration paid =
        absl::Seconds(10.0 * (pieces - 1) / static_cast<double>(pieces));
    EXPECT_NEAR(absl::ToDoubleSeconds(took),
                absl::ToDoubleSeconds(paid - Throttle::kBurst), 1e-3)
        << piece;
  }
}

TEST(Throttle, ARestIsNotMadeUpFor) {
  Throttle throttle(GiB(1));
  absl::Time now = absl::UnixEpoch();
  TimeFor(&throttle, MiB(1), 1, &now);
  now += absl::Hours(1);
  const absl::Duration took = TimeFor(&throttle, MiB(1), 1025, &now);
  EXPECT_GE(took, absl::Seconds(1) - Throttle::kBurst);
}

TEST(Throttle, TheFirstPieceBeginsAtOnce) {
  Throttle throttle(MiB(1));
  EXPECT_EQ(throttle.Take(GiB(1), absl::UnixEpoch()), absl::ZeroDuration());
  EXPECT_EQ(throttle.Take(MiB(1), absl::UnixEpoch()),
            absl::Seconds(1024) - Throttle::kBurst);
}

TEST(Throttle, ANewCapCountsAtOnce) {
  Throttle throttle(MiB(1));
  absl::Time now = absl::UnixEpoch();
  throttle.Take(GiB(1), now);
  throttle.Set(GiB(1));
  EXPECT_EQ(throttle.Take(GiB(1), now), absl::ZeroDuration());
  EXPECT_EQ(throttle.Take(GiB(1), now), absl::Seconds(1) - Throttle::kBurst);
  throttle.Set(std::nullopt);
  EXPECT_EQ(throttle.Take(GiB(1), now), absl::ZeroDuration());
}

TEST(Throttle, WithoutACapNothingWaits) {
  Throttle throttle(std::nullopt);
  EXPECT_FALSE(throttle.capped());
  absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(TimeFor(&throttle, GiB(1), 1000, &now), absl::ZeroDuration());
}

}  // namespace
}  // namespace hugepool
