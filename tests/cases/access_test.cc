// Who may connect, and a configuration that is wrong.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

constexpr uint32_t kGroup = 64500;

class AccessTest : public CaseTest {
 protected:
  bool StartForGroup() {
    if (!HavePages(4)) return false;
    StartDaemon(
        {.config = absl::StrCat("backend: hugetlb\n"
                                "listeners: [{dir: \"@DIR@/l\", group: \"",
                                kGroup, "\"}, {dir: \"@DIR@\", group: \"\"}]\n",
                                "pools: [{page_size: 2MiB, target: 8MiB}]\n"),
         .as = UnprivilegedDaemon()});
    return daemon_ != nullptr;
  }
};

TEST_F(AccessTest, AMemberOfTheGroupLeasesAndUsesMemory) {
  if (!StartForGroup()) return;
  auto client =
      ClientProcess::Start({.uid = 65001, .gid = 65001, .groups = {kGroup}});
  ASSERT_TRUE(client.ok()) << client.status();
  const Line connected =
      (*client)->Ask(Line("connect").Set("dir", daemon_->dir() + "/l"));
  ASSERT_TRUE(connected.ok()) << connected;
  EXPECT_EQ(connected.Get("domain"), "uid:65001");
  ASSERT_TRUE((*client)->Ask(Acquire2M(4)).ok());
  EXPECT_EQ((*client)->Ask(Line("zero")).Number("nonzero", 1), 0u);
  ASSERT_TRUE((*client)->Ask(Line("fill").Set("seed", uint64_t{3})).ok());
  EXPECT_EQ((*client)
                ->Ask(Line("check").Set("seed", uint64_t{3}))
                .Number("foreign", 1),
            0u);
  EXPECT_TRUE((*client)->Ask(Line("release")).ok());
  ExpectAllBack();
}

TEST_F(AccessTest, OthersAreRefusedAndToldSo) {
  if (!StartForGroup()) return;
  auto client = ClientProcess::Start({.uid = 65002, .gid = 65002});
  ASSERT_TRUE(client.ok()) << client.status();
  for (const std::string& dir : {daemon_->dir() + "/l", daemon_->dir()}) {
    const Line refused = (*client)->Ask(Line("connect").Set("dir", dir));
    EXPECT_EQ(refused.Get("code"), "PERMISSION_DENIED") << refused;
  }
}

TEST_F(AccessTest, AStolenSessionIsOfNoUse) {
  if (!StartWithPages(4)) return;
  auto owner = RawClient::Connect(daemon_->dir());
  ASSERT_TRUE(owner.ok()) << owner.status();
  auto thief = NewClient(65002);
  const Line stolen = thief->Ask(
      Line("steal")
          .Set("dir", daemon_->dir())
          .Set("bytes", uint64_t{2} << 20)
          .Set("secret",
               absl::BytesToHexString((*owner)->welcome().session_secret())));
  EXPECT_FALSE(stolen.ok()) << stolen;
  EXPECT_TRUE(stolen.Get("reason") == "ERROR_REASON_NOT_ALLOWED" ||
              stolen.Get("reason") == "ERROR_REASON_NO_FD_CHANNEL")
      << stolen;
}

TEST_F(AccessTest, LeasesOfOthersCannotBeReleased) {
  if (!StartWithPages(4)) return;
  auto holder = NewClient(65001);
  const Line got = holder->Ask(Acquire2M(1));
  ASSERT_TRUE(got.ok());
  auto other = NewClient(65002);
  const Line released = other->Ask(Line("end").Set("lease", got.Get("lease")));
  EXPECT_EQ(released.Get("reason"), "ERROR_REASON_LEASE_GONE") << released;
  EXPECT_TRUE(holder->Ask(Line("release")).ok());
}

TEST(ConfigurationTest, EveryErrorIsToldAndTheExitCodeIs78) {
  char name[] = "/tmp/hpcXXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(name) << "pools:\n"
                         "  - {page_size: 3MiB, target: 1GiB}\n"
                         "reuse: sometimes\n"
                         "no_such_key: 1\n"
                         "grants: {acknowledge_within: 5}\n";
  const ProgramResult ran =
      RunProgram({RunfilePath("daemon/server/hugepoold"), "--config", name});
  unlink(name);
  EXPECT_EQ(ran.exit_code, 78) << ran.errors;
  for (const char* word :
       {":3:", ":4:", ":5:", "reuse", "no_such_key", "acknowledge_within"}) {
    EXPECT_TRUE(absl::StrContains(ran.errors, word)) << word << "\n"
                                                     << ran.errors;
  }
}

TEST(ConfigurationTest, AFileThatIsNotThere) {
  const ProgramResult ran = RunProgram({RunfilePath("daemon/server/hugepoold"),
                                        "--config", "/no/such/file.yaml"});
  EXPECT_EQ(ran.exit_code, 78);
  EXPECT_TRUE(absl::StrContains(ran.errors, "/no/such/file.yaml"))
      << ran.errors;
}

TEST(ConfigurationTest, AnUnknownOptionIsAUsageError) {
  EXPECT_EQ(RunProgram({RunfilePath("daemon/server/hugepoold"), "--no-such"})
                .exit_code,
            2);
}

}  // namespace
}  // namespace hugepool::testing
