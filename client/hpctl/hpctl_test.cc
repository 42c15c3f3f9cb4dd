// hpctl as a function against a fake daemon: output and exit codes.
#include "client/hpctl/hpctl.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/hpctl_fixture.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hugepool::hpctl {
namespace {

using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::Faults;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HpctlTest : public HpctlFixture {
 protected:
  int Deny(absl::StatusCode code, v1::ErrorReason reason) {
    Faults faults;
    faults.deny_code = code;
    faults.deny_text = "refused";
    faults.deny_detail.set_reason(reason);
    faults.deny_detail.set_hint("do something else");
    faults.deny_detail.set_wanted_bytes(GiB(1).value());
    faults.deny_detail.set_available_bytes(MiB(2).value());
    daemon_.SetFaults(faults);
    return Run({"acquire", "--size", "2M"});
  }
};

v1::GetStatusResponse SampleStatus() {
  v1::GetStatusResponse status;
  status.set_version("1.2.3");
  status.set_backend("hugetlb");
  status.set_probe("lease");
  status.set_ready(false);
  v1::PoolStatus* pool = status.add_pools();
  pool->set_page_size(MiB(2).value());
  pool->set_target_bytes(GiB(1).value());
  pool->set_clean_bytes(MiB(512).value());
  pool->set_held_bytes(MiB(256).value());
  pool->set_leased_high_water_bytes(MiB(260).value());
  pool->set_grants(4);
  pool->set_hits(3);
  pool->set_shortfall("the kernel has no more pages");
  v1::DomainStatus* domain = status.add_domains();
  domain->set_domain("uid:1000");
  domain->set_charged_bytes(MiB(256).value());
  v1::ZeroingStatus* zeroing = status.add_zeroing();
  zeroing->set_stores("clzero");
  zeroing->set_stores_bytes_per_second(45'160'000'000);
  zeroing->set_zero_threads(2);
  zeroing->set_populate_threads(2);
  zeroing->set_populate_bytes_per_second(15'540'000'000);
  zeroing->set_background_share(0.25);
  zeroing->set_background_bytes_per_second(1'073'741'824);
  zeroing->set_pressure_percent(37.5);
  status.add_warnings("io\x1b[31mred");
  return status;
}

TEST_F(HpctlTest, StatusForPeople) {
  daemon_.SetStatus(SampleStatus());
  EXPECT_EQ(Run({"status"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("hugepoold 1.2.3, not ready"),
                          HasSubstr("NODE   PAGE  TARGET    CLEAN"),
                          HasSubstr("   0  2 MiB   1 GiB  512 MiB"),
                          HasSubstr("short of its target by 128 pages: the "
                                    "kernel has no more pages"),
                          HasSubstr("uid:1000  256 MiB"),
                          HasSubstr("0  clzero   45.2 GB/s  -         15.5 GB/s "
                                    "by 2  1.1 GB/s, 25% as others wait 37.5%"),
                          // What others wrote does not reach the terminal.
                          HasSubstr("warning: io?[31mred")));
}

TEST_F(HpctlTest, StatusAsJson) {
  daemon_.SetStatus(SampleStatus());
  EXPECT_EQ(Run({"-o", "json", "status"}), kExitOk) << err_;
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["pools"][0]["page_size"], MiB(2).value());
  EXPECT_EQ(json["pools"][0]["limbo_bytes"], 0);
  EXPECT_EQ(json["ready"], false);
  EXPECT_EQ(json["zeroing"][0]["stores"], "clzero");
  EXPECT_TRUE(json["started"].is_null());
}

// N28: what was never needed shows.
TEST_F(HpctlTest, PoolList) {
  daemon_.SetStatus(SampleStatus());
  EXPECT_EQ(Run({"pool", "list"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("NEVER LEASED"), HasSubstr("508 MiB"),
                          HasSubstr("75%")));
}

TEST_F(HpctlTest, Health) {
  EXPECT_EQ(Run({"health", "--ready"}), kExitOk);
  EXPECT_EQ(out_, "ready\n");
  daemon_.SetStatus(SampleStatus());
  EXPECT_EQ(Run({"health"}), kExitOk);
  EXPECT_EQ(Run({"health", "--ready"}), kExitFailed);
  EXPECT_EQ(out_,
            "alive, not ready: pool of 2 MiB pages on node 0 has 768 MiB of "
            "1 GiB: the kernel has no more pages\n");
}

// T7: it serves what it has, and says what is missing.
TEST_F(HpctlTest, HealthOfADaemonWithFewerPagesThanAskedFor) {
  v1::GetStatusResponse status = SampleStatus();
  status.set_ready(true);
  daemon_.SetStatus(status);
  EXPECT_EQ(Run({"health", "--ready"}), kExitOk) << "it serves";
  EXPECT_EQ(out_,
            "ready, degraded: pool of 2 MiB pages on node 0 has 768 MiB of "
            "1 GiB: the kernel has no more pages\n");
  EXPECT_EQ(Run({"-o", "json", "health"}), kExitOk);
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["degraded"], true);
  EXPECT_EQ(json["ready"], true);
  status.mutable_pools(0)->clear_shortfall();
  daemon_.SetStatus(status);
  EXPECT_EQ(Run({"-o", "json", "health"}), kExitOk);
  EXPECT_EQ(nlohmann::json::parse(out_)["degraded"], false);
}

TEST_F(HpctlTest, Events) {
  EXPECT_EQ(Run({"events"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("lease lease-1 granted"),
                          HasSubstr("warning: a warning")));
  EXPECT_EQ(Run({"-o", "json", "events", "-f"}), kExitOk) << err_;
  std::istringstream lines(out_);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["sequence"], 1);
  EXPECT_EQ(json["lease"]["kind"], "granted");
  EXPECT_FALSE(json.contains("warning"));
}

// N9.
TEST_F(HpctlTest, TwentyThousandLeases) {
  daemon_.AddListedLeases(20'000);
  EXPECT_EQ(Run({"-o", "json", "lease", "list"}), kExitOk) << err_;
  const auto json = nlohmann::json::parse(out_);
  std::set<std::string> ids;
  for (const auto& lease : json["leases"]) {
    ids.insert(lease["lease_id"].get<std::string>());
  }
  EXPECT_EQ(ids.size(), 20'000u);
  EXPECT_EQ(Run({"lease", "list", "--state", "held"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("listed-19999"));
}

TEST_F(HpctlTest, ANamedLeaseFromAcquireToRelease) {
  EXPECT_EQ(Run({"acquire", "--size", "4M", "--name", "db"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("size      4 MiB in 1 segments, 2 extents"));
  EXPECT_EQ(daemon_.lease_count(), 1u);
  EXPECT_EQ(Run({"lease", "show", "--name", "db"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("name      db"), HasSubstr("SEGMENT")));
  EXPECT_EQ(Run({"lease", "release", "--name", "db"}), kExitOk) << err_;
  EXPECT_EQ(out_, "released db: 4 MiB\n");
  EXPECT_EQ(Run({"lease", "release", "--name", "db"}), kExitNotFound);
  EXPECT_EQ(Run({"lease", "show", "lease-9"}), kExitNotFound);
  EXPECT_EQ(Run({"lease", "release", "lease-9", "lease-10"}), kExitNotFound);
}

TEST_F(HpctlTest, AcquireWithoutHoldEndsAtOnce) {
  EXPECT_EQ(Run({"-o", "json", "acquire", "--size", "2M"}), kExitOk) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_)["segments"][0]["granted_bytes"],
            MiB(2).value());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_F(HpctlTest, ExitCodesOfRefusals) {
  using absl::StatusCode;
  EXPECT_EQ(Deny(StatusCode::kResourceExhausted, v1::ERROR_REASON_POOL_SHORT),
            kExitShort);
  EXPECT_EQ(err_,
            "hpctl: refused\n  wanted 1 GiB, available 2 MiB\n"
            "  do something else\n");
  EXPECT_EQ(Deny(StatusCode::kFailedPrecondition, v1::ERROR_REASON_NEVER_FITS),
            kExitShort);
  EXPECT_EQ(Deny(StatusCode::kUnavailable, v1::ERROR_REASON_DRAINING),
            kExitShort);
  EXPECT_EQ(Deny(StatusCode::kPermissionDenied, v1::ERROR_REASON_NOT_ALLOWED),
            kExitDenied);
  EXPECT_EQ(Deny(StatusCode::kDeadlineExceeded, v1::ERROR_REASON_WAIT_EXPIRED),
            kExitWaitExpired);
  EXPECT_EQ(Deny(StatusCode::kInvalidArgument, v1::ERROR_REASON_NO_SUCH_NODE),
            kExitUsage);
  EXPECT_EQ(Deny(StatusCode::kInternal, v1::ERROR_REASON_INTERNAL),
            kExitFailed);
  EXPECT_EQ(Run({"-o", "json", "acquire", "--size", "2M"}), kExitFailed);
  EXPECT_EQ(nlohmann::json::parse(err_)["error"]["reason"], "internal");
}

TEST_F(HpctlTest, UsageErrors) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"nonsense"},
      {"lease"},
      {"lease", "show"},
      {"lease", "show", "a", "--name", "b"},
      {"lease", "list", "--state", "odd"},
      {"pool"},
      {"config", "check"},
      {"acquire"},
      {"acquire", "--size", "x"},
      {"acquire", "--size", "2M", "--bind", "0", "--interleave", "1"},
      {"-o", "xml", "status"},
      {"status", "--", "true"},
      {"status", "extra"},
  };
  for (const auto& args : bad) {
    EXPECT_EQ(Run(args), kExitUsage) << ::testing::PrintToString(args);
    EXPECT_THAT(err_, Not(HasSubstr("terminate"))) << err_;
    EXPECT_FALSE(err_.empty());
  }
}

TEST_F(HpctlTest, HelpIsNoError) {
  EXPECT_EQ(Run({"--help"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("Exit codes"));
  EXPECT_EQ(Run({"acquire", "--help"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("--page-size"));
}

TEST_F(HpctlTest, ConfigCheckTellsEveryErrorWithItsLine) {
  EXPECT_EQ(Run({"config", "check", "deploy/hugepoold.yaml.example"}), kExitOk)
      << err_;
  const std::string bad = ::testing::TempDir() + "/bad.yaml";
  std::ofstream(bad) << "reuse: sometimes\npols: []\n";
  EXPECT_NE(Run({"config", "check", bad}), kExitOk);
  EXPECT_THAT(err_, HasSubstr(bad + ":1: reuse"));
  EXPECT_THAT(err_, HasSubstr(bad + ":2: 'pols'"));
}

TEST_F(HpctlTest, ConfigShowAsksTheAdminSocket) {
  EXPECT_EQ(Run({"config", "show"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("page_size: 2MiB"));
}

TEST_F(HpctlTest, AdminCommands) {
  EXPECT_EQ(Run({"pool", "set", "--node", "1", "--page-size", "2M", "4G"}),
            kExitOk)
      << err_;
  EXPECT_THAT(out_, HasSubstr("   1  2 MiB   4 GiB"));
  EXPECT_EQ(Run({"pool", "reclaim", "--node", "0", "--page-size", "2M", "64M"}),
            kExitOk)
      << err_;
  EXPECT_EQ(out_, "reclaimed 64 MiB\n");
  EXPECT_EQ(Run({"pool", "reclaim", "--node", "0", "--page-size", "2M"}),
            kExitUsage);
  EXPECT_EQ(Run({"pool", "verify", "--node", "0", "--page-size", "2M"}),
            kExitFailed);
  EXPECT_EQ(out_, "verified 1 GiB, 1 bytes not zero\n");
  EXPECT_EQ(
      Run({"-o", "json", "pool", "verify", "--node", "0", "--page-size", "2M"}),
      kExitFailed);
  EXPECT_EQ(Run({"lease", "revoke", "lease-1"}), kExitDenied);
  EXPECT_EQ(Run({"lease", "revoke", "--kill", "lease-1"}), kExitOk) << err_;
  for (const char* bandwidth : {"8GiB/s", "8G", "none"}) {
    EXPECT_EQ(Run({"config", "tune", "--bandwidth", bandwidth}), kExitOk)
        << err_;
  }
  EXPECT_EQ(Run({"config", "tune", "--bandwidth", "fast"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--bandwidth"));
  for (const char* limit : {"25%", "25", "off"}) {
    EXPECT_EQ(Run({"config", "tune", "--pressure-limit", limit}), kExitOk)
        << err_;
  }
  EXPECT_EQ(Run({"config", "tune", "--pressure-limit", "0"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--pressure-limit: '0' is not a share"));
  EXPECT_EQ(Run({"config", "tune"}), kExitUsage);
  EXPECT_EQ(Run({"config", "reload"}), kExitFailed);
  EXPECT_EQ(err_, "f.yaml:3: pools[0].low: too high\n");
  // The fake has none of it.
  EXPECT_EQ(Run({"pool", "drain"}), kExitFailed);
}

// Without admin.sock a release goes over a session.
TEST_F(HpctlTest, ReleaseWithoutBeingAnAdmin) {
  daemon_.Stop();
  FakeDaemon plain({.dir = dir_.path()});
  plain.Start();
  unlink((dir_.path() + "/admin.sock").c_str());
  EXPECT_EQ(Run({"acquire", "--size", "4M", "--name", "db"}), kExitOk) << err_;
  EXPECT_EQ(Run({"lease", "release", "--name", "db", "--range", "2M+2M"}),
            kExitOk)
      << err_;
  EXPECT_EQ(plain.lease_count(), 1u);
  EXPECT_EQ(Run({"lease", "release", "--name", "db"}), kExitOk) << err_;
  EXPECT_EQ(plain.lease_count(), 0u);
  EXPECT_EQ(Run({"config", "show"}), kExitNoDaemon);
}

TEST_F(HpctlTest, Version) {
  EXPECT_EQ(Run({"version"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("hugepoold fake"));
}

TEST_F(HpctlTest, NoDaemonIsToldAtOnce) {
  daemon_.Stop();
  const std::vector<std::vector<std::string>> commands = {
      {"status"},         {"health"},
      {"events"},         {"events", "-f"},
      {"lease", "list"},  {"lease", "show", "x"},
      {"pool", "list"},   {"lease", "release", "x"},
      {"config", "show"}, {"acquire", "--size", "2M"}};
  for (const auto& args : commands) {
    const absl::Time start = absl::Now();
    EXPECT_EQ(Run(args), kExitNoDaemon) << ::testing::PrintToString(args);
    EXPECT_LT(absl::Now() - start, absl::Seconds(1));
    EXPECT_THAT(err_, HasSubstr("daemon not running"));
  }
  EXPECT_EQ(Run({"version"}), kExitOk);
}

// N48.
TEST_F(HpctlTest, AProxyDoesNotMatter) {
  setenv("http_proxy", "http://127.0.0.1:9", 1);
  setenv("https_proxy", "http://127.0.0.1:9", 1);
  setenv("grpc_proxy", "http://127.0.0.1:9", 1);
  EXPECT_EQ(Run({"status"}), kExitOk) << err_;
  unsetenv("http_proxy");
  unsetenv("https_proxy");
  unsetenv("grpc_proxy");
}

TEST_F(HpctlTest, TheSocketDirectoryCanComeFromTheEnvironment) {
  setenv("HUGEPOOL_SOCKET_DIR", dir_.path().c_str(), 1);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunHpctl({"health"}, out, err), kExitOk) << err.str();
  setenv("HUGEPOOL_SOCKET_DIR", ("/tmp/" + std::string(200, 'x')).c_str(), 1);
  EXPECT_EQ(RunHpctl({"health"}, out, err), kExitUsage);
  unsetenv("HUGEPOOL_SOCKET_DIR");
}

}  // namespace
}  // namespace hugepool::hpctl
