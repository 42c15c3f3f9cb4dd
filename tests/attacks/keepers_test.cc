// Holders that release their lease and keep the memory: the next holder must
// never read or be written to by them.
#include <chrono>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/attacks/attack_world.h"

namespace hugepool::testing {
namespace {

class KeepersTest : public AttackTest {
 protected:
  // The attacker has released and still holds on; the victim tries; the
  // attacker then gives up `give_up` and the victim gets everything.
  void VictimTriesBeforeAndAfter(const std::vector<Line>& give_up) {
    const bool got = MayGetPool(victim_.get(), kVictim);
    if (got) ExpectIntact(victim_.get(), kVictim);
    for (const Line& line : give_up) {
      const Line done = attacker_->Ask(line);
      ASSERT_TRUE(done.ok()) << line << " -> " << done;
      EXPECT_EQ(done.Number("foreign"), 0u) << line << " -> " << done;
    }
    if (!got) ExpectGetsZeroedPool(victim_.get(), kVictim);
    ExpectIntact(victim_.get(), kVictim);
    EXPECT_TRUE(victim_->Ask(Line("release")).ok());
    ExpectAllBack();
  }
};

TEST_P(KeepersTest, MappingIsKept) {
  TakeAndFill(attacker_.get(), kAttacker);
  ASSERT_TRUE(attacker_->Ask(Line("close")).ok());
  ASSERT_TRUE(attacker_->Ask(Line("end")).ok());
  ExpectReturning(true);
  ASSERT_TRUE(
      attacker_->Ask(Line("write_loop").Set("seed", uint64_t{kAttacker})).ok());
  VictimTriesBeforeAndAfter({Line("stop"), Line("unmap")});
}

TEST_P(KeepersTest, DupIsKept) {
  TakeAndFill(attacker_.get(), kAttacker);
  ASSERT_TRUE(attacker_->Ask(Line("dup")).ok());
  ASSERT_TRUE(attacker_->Ask(Line("unmap")).ok());
  ASSERT_TRUE(attacker_->Ask(Line("close")).ok());
  ASSERT_TRUE(attacker_->Ask(Line("end")).ok());
  ExpectReturning(true);
  // It comes back to life and writes.
  ASSERT_TRUE(attacker_->Ask(Line("map_dups")).ok());
  ASSERT_TRUE(
      attacker_->Ask(Line("write_loop").Set("seed", uint64_t{kAttacker})).ok());
  VictimTriesBeforeAndAfter({Line("stop"), Line("drop")});
}

TEST_P(KeepersTest, ForkedChildKeepsTheMapping) {
  TakeAndFill(attacker_.get(), kAttacker);
  const Line child = attacker_->Ask(
      Line("fork").Set("writes", "").Set("seed", uint64_t{kAttacker}));
  ASSERT_TRUE(child.ok()) << child;
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectReturning(true);
  const bool got = MayGetPool(victim_.get(), kVictim);
  if (got) ExpectIntact(victim_.get(), kVictim);
  attacker_->KillChildren();
  if (!got) ExpectGetsZeroedPool(victim_.get(), kVictim);
  ExpectIntact(victim_.get(), kVictim);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

TEST_P(KeepersTest, ThirdProcessOfAnotherUserWasGivenTheDescriptors) {
  TakeAndFill(attacker_.get(), kAttacker);
  auto third = ClientProcess::Start({.uid = 65003, .gid = 65003});
  ASSERT_TRUE(third.ok()) << third.status();
  const std::string name = daemon_->dir() + "/third";
  ASSERT_TRUE((*third)->Ask(Line("listen").Set("at", name)).ok());
  ASSERT_TRUE(attacker_->Ask(Line("pass").Set("to", name)).ok());
  ASSERT_TRUE((*third)->Ask(Line("receive")).ok());
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectReturning(true);
  // Nothing is mapped anywhere at first; then it is, and written to.
  bool got = MayGetPool(victim_.get(), kVictim);
  const Line mapped = (*third)->Ask(Line("map_dups"));
  ASSERT_TRUE(mapped.ok()) << mapped;
  ASSERT_TRUE(
      (*third)->Ask(Line("write_loop").Set("seed", uint64_t{kAttacker})).ok());
  if (!got) got = MayGetPool(victim_.get(), kVictim);
  if (got) ExpectIntact(victim_.get(), kVictim);
  const Line stopped = (*third)->Ask(Line("stop"));
  EXPECT_GT(stopped.Number("rounds"), 0u) << stopped;
  ASSERT_TRUE((*third)->Ask(Line("drop")).ok());
  if (!got) ExpectGetsZeroedPool(victim_.get(), kVictim);
  ExpectIntact(victim_.get(), kVictim);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

// T4, first half: a writer that goes on after the release, and lets go at some
// point while the next holder is already waiting.
TEST_P(KeepersTest, T4WriterGoesOnAfterTheReleaseAHundredRounds) {
  const int rounds = page() == k1G ? 20 : 100;
  uint64_t random = 12345;
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    TakeAndFill(attacker_.get(), kAttacker);
    ASSERT_TRUE(
        attacker_->Ask(Line("write_loop").Set("seed", uint64_t{kAttacker}))
            .ok());
    ASSERT_TRUE(attacker_->Ask(Line("close")).ok());
    ASSERT_TRUE(attacker_->Ask(Line("end")).ok());
    victim_->Say(WholePool(absl::Seconds(30)));
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::this_thread::sleep_for(
        std::chrono::microseconds((random >> 33) % 8000));
    // The last write is microseconds before the unmapping.
    ASSERT_TRUE(attacker_->Ask(Line("stop")).ok());
    ASSERT_TRUE(attacker_->Ask(Line("unmap")).ok());
    const Line got = victim_->Answer();
    ASSERT_TRUE(got.ok()) << "round " << i << ": " << got;
    for (int look = 0; look < 2; ++look) {
      const Line zero = victim_->Ask(Line("zero"));
      ASSERT_EQ(zero.Number("nonzero", 1), 0u) << "round " << i << ": " << zero;
    }
    ASSERT_TRUE(victim_->Ask(Line("fill").Set("seed", uint64_t{kVictim})).ok());
    ExpectIntact(victim_.get(), kVictim);
    ASSERT_TRUE(victim_->Ask(Line("release")).ok());
  }
  ExpectAllBack();
}

INSTANTIATE_TEST_SUITE_P(Pages, KeepersTest, ::testing::Values(k2M, k1G),
                         PageName);

}  // namespace
}  // namespace hugepool::testing
