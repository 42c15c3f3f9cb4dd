// A daemon on real pages with attackers and victims as its clients.
#ifndef HUGEPOOL_TESTS_ATTACKS_ATTACK_WORLD_H_
#define HUGEPOOL_TESTS_ATTACKS_ATTACK_WORLD_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/base/units.h"
#include "gtest/gtest.h"
#include "tests/harness/client_process.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/guards.h"
#include "tests/harness/line.h"
#include "tests/harness/pattern.h"

namespace hugepool::testing {

// How the daemon gets memory ready again; chosen with --mode=.
enum class Mode {
  kRetire,   // the default
  kInPlace,  // cleared, for the same domain, with private leases
  kLetGo,    // a kernel without a probe (fs.leases-enable=0)
};
Mode TestedMode();
// Reads --mode=retire|in-place|let-go. False for another word.
bool ParseMode(const std::string& argument);

inline constexpr Seed kAttacker = 0x0bad;
inline constexpr Seed kVictim = 0x600d;

// Two uids that are neither root nor the daemon.
inline constexpr uint32_t kAttackerUid = 65001;
inline constexpr uint32_t kVictimUid = 65002;

// Attacks are tried with pages of 2 MiB and of 1 GiB. The pool has four of 2
// MiB (and one of 1 GiB where that is tried), the kernel as many more as a test
// says, so that pages that cannot come back can be replaced.
class AttackTest : public ::testing::TestWithParam<PageSize> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // All there is in the pool.
  uint64_t PoolBytes() const;
  PageSize page() const { return GetParam(); }

  // A client of the tested domain. In Mode::kInPlace all come through one
  // listener and are one domain, so that the victim is the one who would get
  // the attacker's extents; `elsewhere`: of another domain.
  std::unique_ptr<ClientProcess> NewClient(uint32_t uid,
                                           bool elsewhere = false);
  // The line that acquires the whole pool.
  Line WholePool(absl::Duration wait = absl::ZeroDuration()) const;
  // Acquires the whole pool for `client` and fills it with `seed`.
  void TakeAndFill(ClientProcess* client, Seed seed, const char* as = "0");
  // `client` gets the whole pool within 20 s; it is zero; it gets filled.
  void ExpectGetsZeroedPool(ClientProcess* client, Seed seed);
  // `client` may or may not get the pool while the attacker still holds on;
  // what it gets is zero. True if it got it.
  bool MayGetPool(ClientProcess* client, Seed seed);
  // Nobody wrote into what `client` filled.
  void ExpectIntact(ClientProcess* client, Seed seed, const char* as = "0");
  // Every lease is over and every page is clean again.
  void ExpectAllBack();
  // The daemon says of a lease that it is returning, and why.
  void ExpectReturning(bool returning);

  std::unique_ptr<KernelPages> pages_;
  std::unique_ptr<SysctlGuard> no_leases_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<ClientProcess> attacker_;
  std::unique_ptr<ClientProcess> victim_;
};

std::string PageName(const ::testing::TestParamInfo<PageSize>& info);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_ATTACKS_ATTACK_WORLD_H_
