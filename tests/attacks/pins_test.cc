// Pages pinned by io_uring or sitting in a pipe, which no witness sees. Retired
// memory is safe from them; memory that is cleared in place is, by the holder's
// promise, only at risk within its own domain.
#include <string>

#include "gtest/gtest.h"
#include "tests/attacks/attack_world.h"

namespace hugepool::testing {
namespace {

class PinsTest : public AttackTest {
 protected:
  // Takes the pool, pins it with `pin` and gives everything else up.
  void PinAndRelease(const char* pin) {
    TakeAndFill(attacker_.get(), kAttacker);
    const Line pinned = attacker_->Ask(Line(pin));
    if (!pinned.ok()) GTEST_SKIP() << pinned;
    ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  }
  // Whoever is to be safe: in place only those of other domains are.
  std::unique_ptr<ClientProcess> SafeVictim() {
    return NewClient(kVictimUid, /*elsewhere=*/true);
  }
  // The attacker looks through its pin and sees nothing of others.
  void ExpectSeesNothing(const char* look) {
    const Line seen =
        attacker_->Ask(Line(look).Set("seed", uint64_t{kAttacker}));
    ASSERT_TRUE(seen.ok()) << seen;
    EXPECT_EQ(seen.Number("foreign", 1), 0u) << seen;
  }
};

TEST_P(PinsTest, IoUringFixedBuffer) {
  PinAndRelease("uring_pin");
  if (IsSkipped() || HasFailure()) return;
  auto victim = SafeVictim();
  // Spare pages of the kernel's stand in for the pinned ones where there are
  // enough, so it may be served while the pin lives.
  const bool got = MayGetPool(victim.get(), kVictim);
  if (got) {
    ExpectSeesNothing("uring_look");
    ASSERT_TRUE(
        attacker_->Ask(Line("uring_scribble").Set("seed", uint64_t{kAttacker}))
            .ok());
    ExpectIntact(victim.get(), kVictim);
  }
  ASSERT_TRUE(attacker_->Ask(Line("unpin")).ok());
  if (!got) ExpectGetsZeroedPool(victim.get(), kVictim);
  ExpectIntact(victim.get(), kVictim);
  EXPECT_TRUE(victim->Ask(Line("release")).ok());
  ExpectAllBack();
}

// The control: what is cleared in place for the same domain can be reached
// through a pin, as the documentation says. Were it not seen here, the other
// tests of this file would show nothing.
TEST_P(PinsTest, WithinADomainThatIsClearedInPlaceAPinIsSeen) {
  if (TestedMode() != Mode::kInPlace) {
    GTEST_SKIP() << "nothing is cleared in place in this mode";
  }
  PinAndRelease("uring_pin");
  if (IsSkipped() || HasFailure()) return;
  const Line got = victim_->Ask(WholePool(absl::Seconds(20)));
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(got.Number("in_place"), 1u) << got;
  EXPECT_EQ(victim_->Ask(Line("zero")).Number("nonzero", 1), 0u);
  ASSERT_TRUE(victim_->Ask(Line("fill").Set("seed", uint64_t{kVictim})).ok());
  const Line seen =
      attacker_->Ask(Line("uring_look").Set("seed", uint64_t{kAttacker}));
  EXPECT_GT(seen.Number("foreign"), 0u) << seen;
  ASSERT_TRUE(attacker_->Ask(Line("unpin")).ok());
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

// The pin writes all the while the memory changes hands.
TEST_P(PinsTest, IoUringWritesDuringTheReturn) {
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    PinAndRelease("uring_pin");
    if (IsSkipped() || HasFailure()) return;
    auto victim = SafeVictim();
    victim->Say(WholePool(absl::Seconds(30)));
    for (int i = 0; i < 20; ++i) {
      attacker_->Ask(Line("uring_scribble").Set("seed", uint64_t{kAttacker}));
    }
    ASSERT_TRUE(attacker_->Ask(Line("unpin")).ok());
    const Line got = victim->Answer();
    ASSERT_TRUE(got.ok()) << got;
    const Line zero = victim->Ask(Line("zero"));
    ASSERT_EQ(zero.Number("nonzero", 1), 0u) << zero;
    ASSERT_TRUE(victim->Ask(Line("release")).ok());
  }
  ExpectAllBack();
}

TEST_P(PinsTest, PagesInAPipe) {
  PinAndRelease("splice_pin");
  if (IsSkipped() || HasFailure()) return;
  auto victim = SafeVictim();
  const bool got = MayGetPool(victim.get(), kVictim);
  ExpectSeesNothing("splice_look");
  ASSERT_TRUE(attacker_->Ask(Line("unpin")).ok());
  if (!got) ExpectGetsZeroedPool(victim.get(), kVictim);
  ExpectIntact(victim.get(), kVictim);
  EXPECT_TRUE(victim->Ask(Line("release")).ok());
  ExpectAllBack();
}

INSTANTIATE_TEST_SUITE_P(Pages, PinsTest, ::testing::Values(k2M, k1G),
                         PageName);

}  // namespace
}  // namespace hugepool::testing
