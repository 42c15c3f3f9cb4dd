// Leases that an operator takes back, on real pages and from real processes.
#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

class RevokeTest : public CaseTest {
 protected:
  ProgramResult Hpctl(std::vector<std::string> args) {
    args.insert(args.begin(), {RunfilePath("client/hpctl/hpctl"), "--socket",
                               daemon_->dir()});
    return RunProgram(args);
  }
  // What "check" says of memory that nobody took or wrote into.
  static bool IsIntact(const Line& checked) {
    return checked.ok() && checked.Number("foreign") == 0 &&
           checked.Number("faults") == 0;
  }
  // A client that holds `pages`, all of them written; the lease's id.
  std::string Holds(ClientProcess* client, const Line& acquire) {
    const Line lease = client->Ask(acquire);
    EXPECT_TRUE(lease.ok()) << lease;
    EXPECT_TRUE(client->Ask(Line("fill").Set("seed", uint64_t{7})).ok());
    return lease.Get("lease");
  }
};

TEST_F(RevokeTest, TheMemoryIsTakenFromEverybodyWhoHasIt) {
  if (!StartWithPages(16)) return;
  auto bystander = NewClient(65002);
  Holds(bystander.get(), Acquire2M(4));
  auto client = NewClient();
  const std::string id = Holds(client.get(), Acquire2M(8));
  // A child, too (T2).
  ASSERT_TRUE(client->Ask(Line("fork")).ok());
  const ProgramResult revoked = Hpctl({"lease", "revoke", id});
  EXPECT_EQ(revoked.exit_code, 0) << revoked.errors;
  EXPECT_TRUE(absl::StrContains(revoked.output, "16 MiB")) << revoked.output;
  // Its next access is a SIGBUS, which this client reports.
  const Line touched = client->Ask(Line("check").Set("seed", uint64_t{7}));
  EXPECT_GT(touched.Number("faults"), 0u) << touched;
  // All that was taken is lent again while both still map what was there.
  ExpectServes(12);
  const Line intact = bystander->Ask(Line("check").Set("seed", uint64_t{7}));
  EXPECT_TRUE(IsIntact(intact)) << intact;
  client.reset();
  bystander.reset();
  ExpectAllBack();
}

TEST_F(RevokeTest, ASealedLeaseIsTakenByEndingItsHolders) {
  if (!HavePages(16)) return;
  RunAs privileged = UnprivilegedDaemon();
  privileged.caps += ",sys_ptrace,dac_read_search,kill";
  StartDaemon({.config = PoolOf2M(16), .as = privileged});
  auto bystander = NewClient(65002);
  Holds(bystander.get(), Acquire2M(4));
  auto client = NewClient();
  const std::string id =
      Holds(client.get(), Acquire2M(8).Set("sealed", ""));
  ASSERT_TRUE(client->Ask(Line("fork").Set("keep", "fds")).ok());
  const ProgramResult refused = Hpctl({"lease", "revoke", id});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(refused.errors, "--kill")) << refused.errors;
  const Line before = client->Ask(Line("check").Set("seed", uint64_t{7}));
  EXPECT_TRUE(IsIntact(before)) << before;
  const ProgramResult killed = Hpctl({"lease", "revoke", id, "--kill"});
  EXPECT_EQ(killed.exit_code, 0) << killed.errors;
  EXPECT_TRUE(absl::StrContains(killed.output, "2 processes")) << killed.output;
  const auto status = client->child().Wait(absl::Seconds(5));
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) << *status;
  const Line intact = bystander->Ask(Line("check").Set("seed", uint64_t{7}));
  EXPECT_TRUE(IsIntact(intact)) << intact;
  ExpectServes(12);
  bystander.reset();
  ExpectAllBack();
}

// Whom it may not look into it cannot end, and says so.
TEST_F(RevokeTest, KillWithoutThePrivilegeNamesWhatIsMissing) {
  if (!StartWithPages(16)) return;
  auto client = NewClient();
  const std::string id = Holds(client.get(), Acquire2M(8).Set("sealed", ""));
  const ProgramResult killed = Hpctl({"lease", "revoke", id, "--kill"});
  EXPECT_EQ(killed.exit_code, 1);
  EXPECT_TRUE(absl::StrContains(killed.errors, "CAP_SYS_PTRACE"))
      << killed.errors;
  const Line intact = client->Ask(Line("check").Set("seed", uint64_t{7}));
  EXPECT_TRUE(IsIntact(intact)) << intact;
  client.reset();
  ExpectAllBack();
}

TEST_F(RevokeTest, BadOrdersChangeNothing) {
  if (!StartWithPages(8)) return;
  auto client = NewClient();
  const std::string id = Holds(client.get(), Acquire2M(4));
  EXPECT_EQ(Hpctl({"lease", "revoke", "lease-0000000100000099"}).exit_code, 7);
  EXPECT_EQ(Hpctl({"lease", "revoke", "nonsense"}).exit_code, 7);
  EXPECT_EQ(Hpctl({"lease", "revoke", "--kill", "nonsense"}).exit_code, 7);
  EXPECT_EQ(Hpctl({"lease", "revoke", id, "--notice", "2d"}).exit_code, 2);
  EXPECT_EQ(Hpctl({"lease", "revoke"}).exit_code, 2);
  const Line intact = client->Ask(Line("check").Set("seed", uint64_t{7}));
  EXPECT_TRUE(IsIntact(intact)) << intact;
  client.reset();
  ExpectAllBack();
}

}  // namespace
}  // namespace hugepool::testing
