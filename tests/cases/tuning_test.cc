// How hard the daemon may work in the background, and what changes that.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/recount.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

class TuningTest : public CaseTest {
 protected:
  // At 1 MiB a second the background needs two seconds a page.
  bool StartSlowly(uint64_t pages) {
    if (!HavePages(pages)) return false;
    std::string config = PoolOf2M(pages);
    config.replace(config.find("none"), 4, "1MiB/s");
    StartDaemon({.config = config, .wait_full = false});
    return true;
  }
  ProgramResult Hpctl(std::vector<std::string> args) {
    args.insert(args.begin(), {RunfilePath("client/hpctl/hpctl"), "--socket",
                               daemon_->dir()});
    return RunProgram(args);
  }
};

TEST_F(TuningTest, TheCapOnBandwidthHoldsAndIsLiftedForThoseWhoWait) {
  if (!StartSlowly(16)) return;
  auto client = NewClient();
  const Line short_of = client->Ask(Acquire2M(16));
  EXPECT_EQ(short_of.Get("reason"), "ERROR_REASON_POOL_SHORT") << short_of;
  const Line got = client->Ask(Acquire2M(16, 10000));
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(client->Ask(Line("zero")).Number("nonzero", 1), 0u);
}

TEST_F(TuningTest, AnAdminChangesTheCapWhileItRuns) {
  if (!StartSlowly(16)) return;
  auto client = NewClient();
  ASSERT_FALSE(client->Ask(Acquire2M(16)).ok());
  const ProgramResult wrong = Hpctl({"config", "tune", "--bandwidth", "0"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.output << wrong.errors;
  EXPECT_NE(wrong.errors.find("0.001 GB/s"), std::string::npos) << wrong.errors;
  const ProgramResult tuned = Hpctl({"config", "tune", "--bandwidth", "none"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.errors;
  EXPECT_EQ(WaitForAllClean(daemon_.get()), "");
  ExpectServes(16);
  const ProgramResult shown = Hpctl({"config", "show"});
  EXPECT_NE(shown.output.find("bandwidth: none"), std::string::npos)
      << shown.output << shown.errors;
}

}  // namespace
}  // namespace hugepool::testing
