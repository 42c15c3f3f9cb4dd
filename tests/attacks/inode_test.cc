// What a holder can do to the file behind its descriptors: opening it again,
// its mode, its holes, its seals, its size.
#include <fcntl.h>

#include <cerrno>
#include <string>

#include "gtest/gtest.h"
#include "tests/attacks/attack_world.h"

namespace hugepool::testing {
namespace {

class InodeTest : public AttackTest {
 protected:
  // Opens again by path descriptors all the while the memory changes hands.
  void ReopenWhileItReturns(ClientProcess* attacker, const Line& acquire,
                            bool wide_mode);
  uint64_t opened_ = 0;  // how often opening by a path worked
};

void InodeTest::ReopenWhileItReturns(ClientProcess* attacker,
                                     const Line& acquire, bool wide_mode) {
  // A round of 1 GiB takes three times as long and races no differently.
  const int rounds = page() == k1G ? 8 : 25;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const Line got = attacker->Ask(acquire);
    ASSERT_TRUE(got.ok()) << got;
    ASSERT_EQ(attacker->Ask(Line("zero")).Number("nonzero", 1), 0u);
    if (wide_mode) {
      // Refused unless it is the owner or root; worth trying in any case.
      attacker->Ask(Line("chmod").Set("mode", "666"));
    }
    ASSERT_TRUE(
        attacker->Ask(Line("fill").Set("seed", uint64_t{kAttacker})).ok());
    ASSERT_TRUE(
        attacker->Ask(Line("reopen_loop").Set("seed", uint64_t{kAttacker}))
            .ok());
    ASSERT_TRUE(attacker->Ask(Line("unmap")).ok());
    ASSERT_TRUE(attacker->Ask(Line("close")).ok());
    ASSERT_TRUE(attacker->Ask(Line("end")).ok());
    bool taken = MayGetPool(victim_.get(), kVictim);
    const Line stopped = attacker->Ask(Line("stop"));
    ASSERT_TRUE(stopped.ok()) << stopped;
    EXPECT_EQ(stopped.Number("foreign", 1), 0u) << stopped;
    opened_ += stopped.Number("successes");
    ASSERT_TRUE(attacker->Ask(Line("drop")).ok());
    if (!taken) ExpectGetsZeroedPool(victim_.get(), kVictim);
    ExpectIntact(victim_.get(), kVictim);
    ASSERT_TRUE(victim_->Ask(Line("release")).ok());
  }
  ExpectAllBack();
}

TEST_P(InodeTest, OpenedAgainWhileItReturns) {
  ReopenWhileItReturns(attacker_.get(), WholePool(absl::Seconds(20)), false);
  EXPECT_EQ(opened_, 0u) << "mode 0600 should refuse it";
}

TEST_P(InodeTest, ModeIsWidenedAndOpenedAgain) {
  ReopenWhileItReturns(attacker_.get(), WholePool(absl::Seconds(20)), true);
}

// Root may open whatever it likes, and is therefore never given memory that is
// cleared in place.
TEST_P(InodeTest, RootOpensAgainWhileItReturns) {
  auto root = NewClient(0);
  ASSERT_NE(root, nullptr);
  ReopenWhileItReturns(root.get(), WholePool(absl::Seconds(20)), true);
  EXPECT_GT(opened_, 0u) << "the attack did not take place";
}

TEST_P(InodeTest, OwnerOfAReopenableLeaseOpensAgainWhileItReturns) {
  ReopenWhileItReturns(attacker_.get(),
                       WholePool(absl::Seconds(20)).Set("reopenable", ""),
                       true);
  EXPECT_GT(opened_, 0u) << "the attack did not take place";
}

// Who opened it again is found out: that extent is not cleared in place.
TEST_P(InodeTest, WhatRootOrAnOwnerCouldOpenIsRetired) {
  if (TestedMode() != Mode::kInPlace) {
    GTEST_SKIP() << "everything is retired in this mode";
  }
  auto root = NewClient(0);
  ASSERT_NE(root, nullptr);
  const Line plain = WholePool(absl::Seconds(20));
  for (ClientProcess* const holder : {root.get(), attacker_.get()}) {
    Line acquire = plain;
    if (holder != root.get()) acquire.Set("reopenable", "");
    ASSERT_TRUE(holder->Ask(acquire).ok());
    ASSERT_TRUE(holder->Ask(Line("release")).ok());
    const Line got = victim_->Ask(plain);
    EXPECT_EQ(got.Number("in_place", 1), 0u) << got;
    EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  }
  // The control: without either it is cleared in place.
  ASSERT_TRUE(attacker_->Ask(plain).ok());
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  const Line got = victim_->Ask(plain);
  EXPECT_EQ(got.Number("in_place"), 1u) << got;
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

// The seals of a grant cannot be added to later, so what was cleared in place
// cannot be lent sealed: the domain gets other memory then.
TEST_P(InodeTest, SealedLeaseAfterOneThatWasClearedInPlace) {
  const Line plain = WholePool(absl::Seconds(20));
  ASSERT_TRUE(attacker_->Ask(plain).ok());
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectAllBack();
  Line sealed = plain;
  const Line got = victim_->Ask(sealed.Set("sealed", ""));
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(got.Number("in_place", 1), 0u) << got;
  EXPECT_EQ(victim_->Ask(Line("zero")).Number("nonzero", 1), 0u);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

// T3 belongs to a later step in full; this is what matters for safety.
TEST_P(InodeTest, HolesAreNeverPassedOn) {
  TakeAndFill(attacker_.get(), kAttacker);
  const uint64_t size = page().bytes().value();
  const Line punched = attacker_->Ask(
      Line("punch").Set("offset", uint64_t{0}).Set("bytes", size));
  ASSERT_TRUE(punched.ok()) << punched;
  EXPECT_EQ(attacker_->Ask(Line("stat")).Number("blocks", 1), 0u);
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectGetsZeroedPool(victim_.get(), kVictim);
  const uint64_t extents = PoolBytes() / size;
  for (uint64_t fd = 0; fd < extents; ++fd) {
    const Line stat = victim_->Ask(Line("stat").Set("fd", fd));
    EXPECT_EQ(stat.Number("blocks"), size) << stat;
  }
  ExpectIntact(victim_.get(), kVictim);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

TEST_P(InodeTest, TruncatedFilesAreNeverPassedOn) {
  TakeAndFill(attacker_.get(), kAttacker);
  ASSERT_TRUE(attacker_->Ask(Line("truncate").Set("bytes", uint64_t{0})).ok());
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectGetsZeroedPool(victim_.get(), kVictim);
  ExpectIntact(victim_.get(), kVictim);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

// N8: what a holder could add would defeat revoking and cleaning.
TEST_P(InodeTest, N8HolderCanNeitherAddSealsNorGrow) {
  TakeAndFill(attacker_.get(), kAttacker);
  for (const int seals : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, F_SEAL_SHRINK}) {
    const Line sealed =
        attacker_->Ask(Line("seal").Set("seals", static_cast<uint64_t>(seals)));
    EXPECT_EQ(sealed.Number("errno"), static_cast<uint64_t>(EPERM)) << sealed;
  }
  const Line grown =
      attacker_->Ask(Line("truncate").Set("bytes", 2 * page().bytes().value()));
  EXPECT_EQ(grown.Number("errno"), static_cast<uint64_t>(EPERM)) << grown;
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectAllBack();
}

TEST_P(InodeTest, N8HolderOfASealedLeaseCannotShrink) {
  Line acquire = WholePool(absl::Seconds(20)).Set("sealed", "");
  ASSERT_TRUE(attacker_->Ask(acquire).ok());
  const Line cut = attacker_->Ask(Line("truncate").Set("bytes", uint64_t{0}));
  EXPECT_EQ(cut.Number("errno"), static_cast<uint64_t>(EPERM)) << cut;
  ASSERT_TRUE(
      attacker_->Ask(Line("fill").Set("seed", uint64_t{kAttacker})).ok());
  ASSERT_TRUE(attacker_->Ask(Line("release")).ok());
  ExpectGetsZeroedPool(victim_.get(), kVictim);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

INSTANTIATE_TEST_SUITE_P(Pages, InodeTest, ::testing::Values(k2M, k1G),
                         PageName);

}  // namespace
}  // namespace hugepool::testing
