#include "tests/attacks/attack_world.h"

#include <poll.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/recount.h"

namespace hugepool::testing {
namespace {

Mode g_mode = Mode::kRetire;

constexpr char kLeasesEnable[] = "/proc/sys/fs/leases-enable";

// Pages beside the pool's, for what a pin keeps.
constexpr uint64_t kSpare2M = 8;

std::string Config(PageSize page) {
  const char* const pool =
      page == k1G ? "{page_size: 1GiB, target: 1GiB, shapes: [1GiB]}"
                  : "{page_size: 2MiB, target: 8MiB, shapes: [2MiB]}";
  return absl::StrCat(
      "backend: hugetlb\n"
      "listeners:\n"
      "  - {dir: \"@DIR@\", group: \"*\"}\n"
      "  - {dir: \"@DIR@/shared\", group: \"*\", domain: shared}\n",
      "pools: [", pool, "]\n", "zeroing: {bandwidth: none}\n",
      "domains: [{name: shared, reuse: ",
      g_mode == Mode::kInPlace ? "in-place" : "retire", "}]\n");
}

}  // namespace

Mode TestedMode() { return g_mode; }

bool ParseMode(const std::string& argument) {
  if (argument == "--mode=retire") {
    g_mode = Mode::kRetire;
  } else if (argument == "--mode=in-place") {
    g_mode = Mode::kInPlace;
  } else if (argument == "--mode=let-go") {
    g_mode = Mode::kLetGo;
  } else {
    return false;
  }
  return true;
}

std::string PageName(const ::testing::TestParamInfo<PageSize>& info) {
  return info.param == k1G ? "1GiB" : "2MiB";
}

void AttackTest::SetUp() {
  const bool gigantic = page() == k1G;
  auto pages = KernelPages::Reserve(PageCount(gigantic ? 0 : 4 + kSpare2M),
                                    PageCount(gigantic ? 2 : 0));
  if (!pages.ok()) GTEST_SKIP() << pages.status();
  pages_ = *std::move(pages);
  if (TestedMode() == Mode::kLetGo) {
    auto guard = SysctlGuard::Set(kLeasesEnable, "0");
    if (!guard.ok()) GTEST_SKIP() << guard.status();
    no_leases_ = *std::move(guard);
  }
  auto daemon = DaemonProcess::Start(
      {.config = Config(page()), .as = UnprivilegedDaemon()});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
  const auto status = daemon_->GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->probe(),
            TestedMode() == Mode::kLetGo ? std::string("none") : "lease");
  attacker_ = NewClient(kAttackerUid);
  victim_ = NewClient(kVictimUid);
}

void AttackTest::TearDown() {
  attacker_.reset();
  victim_.reset();
  if (daemon_ == nullptr) return;
  const absl::Status stopped = daemon_->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
  if (HasFailure()) std::fprintf(stderr, "%s", daemon_->Log().c_str());
}

uint64_t AttackTest::PoolBytes() const {
  return (page() == k1G ? GiB(1) : MiB(8)).value();
}

std::unique_ptr<ClientProcess> AttackTest::NewClient(uint32_t uid,
                                                     bool elsewhere) {
  auto client = ClientProcess::Start(
      // Without it io_uring would pin a few pages of 2 MiB at most.
      {.uid = uid, .gid = uid, .caps = "ipc_lock"});
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    return nullptr;
  }
  const bool shared = TestedMode() == Mode::kInPlace && !elsewhere;
  const Line connected = (*client)->Ask(
      Line("connect").Set("dir", daemon_->dir() + (shared ? "/shared" : "")));
  EXPECT_TRUE(connected.ok()) << connected;
  return *std::move(client);
}

Line AttackTest::WholePool(absl::Duration wait) const {
  Line line =
      Line("acquire")
          .Set("bytes", PoolBytes())
          .Set("page", page().bytes().value())
          .Set("wait", static_cast<uint64_t>(absl::ToInt64Milliseconds(wait)));
  if (TestedMode() == Mode::kInPlace) line.Set("private", "");
  return line;
}

void AttackTest::TakeAndFill(ClientProcess* client, Seed seed, const char* as) {
  const Line got = client->Ask(WholePool(absl::Seconds(20)).Set("as", as));
  ASSERT_TRUE(got.ok()) << got;
  const Line zero = client->Ask(Line("zero").Set("as", as));
  ASSERT_EQ(zero.Number("nonzero", 1), 0u) << zero;
  ASSERT_EQ(zero.Number("bytes"), PoolBytes());
  ASSERT_TRUE(
      client->Ask(Line("fill").Set("as", as).Set("seed", uint64_t{seed})).ok());
}

void AttackTest::ExpectGetsZeroedPool(ClientProcess* client, Seed seed) {
  TakeAndFill(client, seed);
}

bool AttackTest::MayGetPool(ClientProcess* client, Seed seed) {
  const Line got = client->Ask(WholePool(absl::Milliseconds(300)));
  if (!got.ok()) {
    EXPECT_EQ(got.Get("reason"), "ERROR_REASON_WAIT_EXPIRED") << got;
    return false;
  }
  const Line zero = client->Ask(Line("zero"));
  EXPECT_EQ(zero.Number("nonzero", 1), 0u) << zero;
  EXPECT_TRUE(client->Ask(Line("fill").Set("seed", uint64_t{seed})).ok());
  return true;
}

void AttackTest::ExpectIntact(ClientProcess* client, Seed seed,
                              const char* as) {
  const Line check =
      client->Ask(Line("check").Set("as", as).Set("seed", uint64_t{seed}));
  EXPECT_EQ(check.Number("foreign", 1), 0u) << check;
  EXPECT_EQ(check.Number("faults", 1), 0u) << check;
}

void AttackTest::ExpectAllBack() {
  EXPECT_EQ(WaitForAllClean(daemon_.get()), "");
}

void AttackTest::ExpectReturning(bool returning) {
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  std::string seen;
  do {
    const auto leases = ListAllLeases(daemon_->dir());
    ASSERT_TRUE(leases.ok()) << leases.status();
    bool is = false;
    seen.clear();
    for (const v1::Lease& lease : *leases) {
      is |=
          lease.state() == v1::LEASE_STATE_RETURNING && !lease.reason().empty();
      absl::StrAppend(&seen, lease.ShortDebugString(), "\n");
    }
    if (is == returning) return;
    poll(nullptr, 0, 5);
  } while (absl::Now() < deadline);
  ADD_FAILURE() << "expected " << (returning ? "a" : "no")
                << " returning lease with a reason; there are:\n"
                << seen;
}

}  // namespace hugepool::testing
