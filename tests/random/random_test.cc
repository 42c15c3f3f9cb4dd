// Runs random_clients and judges its last line. With --plants: once for each
// defect that a build with --config=plants can plant; each must be found.
#include <sys/wait.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/harness/child_process.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

std::string g_seconds = "60";
std::string g_seed = "1";
bool g_plants = false;

struct Outcome {
  int exit_code = -1;
  uint64_t leases = 0;
  uint64_t kills = 0;
  uint64_t violations = UINT64_MAX;
  std::string output;
};

Outcome RunClients(std::vector<std::string> args) {
  args.insert(args.begin(), RunfilePath("tests/random/random_clients"));
  auto child = ChildProcess::Start(args, {});
  Outcome outcome;
  if (!child.ok()) {
    outcome.output = child.status().ToString();
    return outcome;
  }
  outcome.output = (*child)->ReadAll(absl::Minutes(14));
  const auto ended = (*child)->Wait(absl::Seconds(30));
  if (ended.has_value() && WIFEXITED(*ended)) {
    outcome.exit_code = WEXITSTATUS(*ended);
  }
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(outcome.output, '\n'))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 9 || words[0] != "random:") continue;
    (void)absl::SimpleAtoi(words[2], &outcome.leases);
    (void)absl::SimpleAtoi(words[4], &outcome.kills);
    (void)absl::SimpleAtoi(words[8], &outcome.violations);
  }
  return outcome;
}

TEST(RandomClients, NobodySeesWhatIsNotHis) {
  if (g_plants) GTEST_SKIP() << "only defects are asked for";
  const Outcome outcome = RunClients({g_seconds, g_seed});
  std::printf("%s", outcome.output.c_str());
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.violations, 0u);
  // A run that did nothing proves nothing.
  EXPECT_GT(outcome.leases, 100u);
  EXPECT_GT(outcome.kills, 10u);
}

class PlantsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PlantsTest, IsFound) {
  if (!g_plants) GTEST_SKIP() << "needs a build with --config=plants";
  const std::string defect = GetParam();
  const Outcome outcome =
      RunClients({"20", g_seed, "--plant=" + defect, "--until-violation"});
  std::printf("%s", outcome.output.c_str());
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  ASSERT_NE(outcome.violations, UINT64_MAX) << outcome.output;
  if (defect == "none") {
    EXPECT_EQ(outcome.violations, 0u) << outcome.output;
  } else {
    EXPECT_GT(outcome.violations, 0u) << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Defects, PlantsTest,
                         ::testing::Values("none", "skip-clear", "double-grant",
                                           "lose-page", "early-clean",
                                           "punch-live", "stale-ledger"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace hugepool::testing

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--plants") == 0) {
      hugepool::testing::g_plants = true;
    } else if (std::strncmp(argv[i], "--seconds=", 10) == 0) {
      hugepool::testing::g_seconds = argv[i] + 10;
    } else if (std::strncmp(argv[i], "--seed=", 7) == 0) {
      hugepool::testing::g_seed = argv[i] + 7;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
