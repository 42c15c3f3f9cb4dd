// How hard the daemon may work in the background, and what changes that.
#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
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
  // Within 10 s.
  bool WaitFor(
      const std::function<bool(const v1::GetStatusResponse&)>& holds) {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    std::string last;
    while (absl::Now() < deadline) {
      const auto status = daemon_->GetStatus();
      if (status.ok() && holds(*status)) return true;
      last = status.ok() ? status->ShortDebugString()
                         : status.status().ToString();
      poll(nullptr, 0, 5);
    }
    ADD_FAILURE() << "the last status: " << last;
    return false;
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

// At 1 MiB a second an extent of 32 MiB holds up the next one for 32 seconds.
TEST_F(TuningTest, WhatIsReleasedComesBackWhileTheCapHoldsTheRestUp) {
  if (!HavePages(48)) return;
  StartDaemon({.config = "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                         "pools: [{page_size: 2MiB, target: 96MiB, "
                         "shapes: [32MiB]}]\n"
                         "zeroing: {bandwidth: none}\n"});
  std::vector<std::unique_ptr<ClientProcess>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(NewClient());
    const Line got = clients.back()->Ask(Acquire2M(16));
    ASSERT_TRUE(got.ok()) << got;
  }
  const ProgramResult tuned =
      Hpctl({"config", "tune", "--bandwidth", "1MiB/s"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.errors;
  // The first is built again, which takes half a minute.
  ASSERT_TRUE(clients[0]->Ask(Line("release")).ok());
  ASSERT_TRUE(WaitFor([](const v1::GetStatusResponse& status) {
    return status.pools(0).populating_bytes() == MiB(32).value();
  }));
  ASSERT_TRUE(clients[1]->Ask(Line("release")).ok());
  ASSERT_TRUE(clients[2]->Ask(Line("release")).ok());
  EXPECT_TRUE(WaitFor([](const v1::GetStatusResponse& status) {
    return status.leases() == 0;
  }));
  const auto status = daemon_->GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->pools(0).populating_bytes(), MiB(32).value())
      << "it waited no longer, so this showed nothing";
}

// A thread that cannot leave the idle class again must not go there.
TEST_F(TuningTest, ADaemonThatMayNotUseTheIdleClassSaysSo) {
  if (!HavePages(4)) return;
  for (const bool may : {false, true}) {
    RunAs as = UnprivilegedDaemon();
    if (may) as.caps += ",sys_nice";
    StartDaemon({.config = PoolOf2M(4), .as = as});
    const auto status = daemon_->GetStatus();
    ASSERT_TRUE(status.ok()) << status.status();
    bool says = false;
    for (const std::string& warning : status->warnings()) {
      says |= warning.find("LimitNICE=20") != std::string::npos;
    }
    EXPECT_EQ(says, !may) << status->ShortDebugString();
    daemon_.reset();
  }
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
