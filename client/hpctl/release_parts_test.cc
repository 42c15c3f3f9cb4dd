// hpctl lease release --range against a fake daemon.
#include <string>
#include <vector>

#include "client/hpctl/exit_code.h"
#include "client/hpctl/hpctl_fixture.h"
#include "daemon/base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hugepool::hpctl {
namespace {

using ::testing::HasSubstr;

using ReleasePartsTest = HpctlFixture;

TEST_F(ReleasePartsTest, OneAndMany) {
  ASSERT_EQ(Run({"acquire", "--size", "8M", "--size", "4M", "--name", "db"}),
            kExitOk)
      << err_;
  EXPECT_EQ(Run({"-o", "json", "lease", "show", "--name", "db"}), kExitOk);
  const std::string id = nlohmann::json::parse(out_)["lease_id"];
  // An id behind a --range is an id.
  EXPECT_EQ(
      Run({"lease", "release", "--range", "0+2M", "--range", "1:2M+2M", id}),
      kExitOk)
      << err_;
  EXPECT_EQ(out_, "released of " + id +
                      ": 4 MiB\n"
                      "SEGMENT  OFFSET   SIZE\n"
                      "      0     0 B  2 MiB\n"
                      "      1   2 MiB  2 MiB\n");
  EXPECT_TRUE(daemon_.IsReleased(id, 0, MiB(0)));
  EXPECT_FALSE(daemon_.IsReleased(id, 0, MiB(2)));
  EXPECT_TRUE(daemon_.IsReleased(id, 1, MiB(2)));
  EXPECT_EQ(Run({"-o", "json", "lease", "release", "--name", "db", "--range",
                 "4M+4M"}),
            kExitOk)
      << err_;
  EXPECT_EQ(nlohmann::json::parse(out_),
            nlohmann::json::parse(R"({"released": [{"lease": "db",
                "released_bytes": 4194304, "ranges": [{"segment": 0,
                "offset": 4194304, "size_bytes": 4194304}]}]})"));
  EXPECT_EQ(daemon_.lease_count(), 1u) << "the lease lives on";
  EXPECT_EQ(Run({"lease", "release", id}), kExitOk);
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_F(ReleasePartsTest, Refused) {
  ASSERT_EQ(Run({"acquire", "--size", "8M", "--name", "db"}), kExitOk) << err_;
  const auto release = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"lease", "release"});
    const int code = Run(more);
    EXPECT_EQ(out_, "") << ::testing::PrintToString(more);
    EXPECT_FALSE(err_.empty());
    return code;
  };
  // By hpctl.
  for (const char* bad : {"", "2M", "0+0", "x:0+2M", "4M-6M"}) {
    EXPECT_EQ(release({"--name", "db", "--range", bad}), kExitUsage);
    EXPECT_EQ(release({"--name", "db", "--range", "0+2M", "--range", bad}),
              kExitUsage);
  }
  EXPECT_EQ(release({"--range", "0+2M"}), kExitUsage);
  EXPECT_EQ(release({"--name", "db", "--range"}), kExitUsage);
  EXPECT_EQ(release({"--name", "db", "--range="}), kExitUsage);
  EXPECT_EQ(daemon_.lease_count(), 1u) << "never the lease by accident";
  EXPECT_EQ(release({"a", "b", "--range", "0+2M"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--range is of one lease"));
  // By the daemon.
  EXPECT_EQ(release({"--name", "db", "--range", "8M+2M"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("db: the daemon sees the segment's end\n"
                              "  mind the pages\n"));
  EXPECT_EQ(release({"--name", "db", "--range", "1M+2M"}), kExitUsage);
  EXPECT_EQ(release({"--name", "db", "--range", "1:0+2M"}), kExitUsage);
  EXPECT_EQ(release({"--name", "db", "--range", "0+4M", "--range", "2M+2M"}),
            kExitUsage);
  EXPECT_EQ(release({"nobody", "--range", "0+2M"}), kExitNotFound);
  EXPECT_EQ(daemon_.lease_count(), 1u);
  // Nothing of all that was done, and nothing is done twice.
  EXPECT_EQ(Run({"lease", "release", "--name", "db", "--range", "0+8M"}),
            kExitOk)
      << err_;
  EXPECT_EQ(release({"--name", "db", "--range", "2M+2M"}), kExitFailed);
  EXPECT_EQ(daemon_.lease_count(), 1u);
}

}  // namespace
}  // namespace hugepool::hpctl
