// T2: the lessee is dead, and somebody else still has the memory.
#include <signal.h>

#include <functional>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/attacks/attack_world.h"

namespace hugepool::testing {
namespace {

class T2LesseeDeadTest : public AttackTest {
 protected:
  // The attacker's process is dead, and somebody holds on until `end_holder`.
  void ExpectHeldUntil(const std::function<void()>& end_holder) {
    ExpectReturning(true);
    const bool got = MayGetPool(victim_.get(), kVictim);
    if (got) ExpectIntact(victim_.get(), kVictim);
    end_holder();
    if (!got) ExpectGetsZeroedPool(victim_.get(), kVictim);
    ExpectIntact(victim_.get(), kVictim);
    EXPECT_TRUE(victim_->Ask(Line("release")).ok());
    ExpectAllBack();
  }
};

TEST_P(T2LesseeDeadTest, ForkedChildMapsIt) {
  TakeAndFill(attacker_.get(), kAttacker);
  ASSERT_TRUE(attacker_->Ask(Line("close")).ok());
  ASSERT_TRUE(
      attacker_
          ->Ask(Line("fork").Set("writes", "").Set("seed", uint64_t{kAttacker}))
          .ok());
  attacker_->Kill();
  ExpectHeldUntil([&] { attacker_->KillChildren(); });
}

TEST_P(T2LesseeDeadTest, AnotherProcessWasGivenTheDescriptors) {
  TakeAndFill(attacker_.get(), kAttacker);
  auto peer = ClientProcess::Start({.uid = 65003, .gid = 65003});
  ASSERT_TRUE(peer.ok()) << peer.status();
  const std::string name = daemon_->dir() + "/peer";
  ASSERT_TRUE((*peer)->Ask(Line("listen").Set("at", name)).ok());
  ASSERT_TRUE(attacker_->Ask(Line("pass").Set("to", name)).ok());
  ASSERT_TRUE((*peer)->Ask(Line("receive")).ok());
  ASSERT_TRUE((*peer)->Ask(Line("map_dups")).ok());
  attacker_->Kill();
  ASSERT_TRUE(
      (*peer)->Ask(Line("write_loop").Set("seed", uint64_t{kAttacker})).ok());
  ExpectHeldUntil([&] { (*peer)->Kill(); });
}

TEST_P(T2LesseeDeadTest, ExecutedProgramInheritedTheDescriptors) {
  TakeAndFill(attacker_.get(), kAttacker);
  ASSERT_TRUE(attacker_->Ask(Line("exec")).ok());
  attacker_->Kill();
  ExpectHeldUntil([&] { attacker_->KillChildren(); });
}

// K8: somebody opens a file on which the daemon has a lease; the signal must
// not end the daemon, and the extent is not lent as if nothing had happened.
TEST_P(T2LesseeDeadTest, OpeningByPathDoesNotKillTheDaemon) {
  const std::string fds = "/proc/" + std::to_string(daemon_->pid()) + "/fd";
  auto root = ClientProcess::Start();
  ASSERT_TRUE(root.ok());
  const Line touched = (*root)->Ask(Line("open_all").Set("dir", fds));
  ASSERT_TRUE(touched.ok()) << touched;
  EXPECT_GT(touched.Number("opened"), 0u) << touched;
  EXPECT_TRUE(daemon_->Alive());
  ASSERT_TRUE((*root)->Ask(Line("drop")).ok());
  ExpectGetsZeroedPool(victim_.get(), kVictim);
  EXPECT_TRUE(victim_->Ask(Line("release")).ok());
  ExpectAllBack();
}

INSTANTIATE_TEST_SUITE_P(Pages, T2LesseeDeadTest, ::testing::Values(k2M, k1G),
                         PageName);

}  // namespace
}  // namespace hugepool::testing
