// T1: a client dies somewhere between the call and the acknowledgement.
#include <chrono>
#include <random>
#include <thread>

#include "gtest/gtest.h"
#include "tests/cases/case_test.h"

namespace hugepool::testing {
namespace {

constexpr uint64_t kPool = 8;
constexpr int kRounds = 200;

using T1GrantLostTest = CaseTest;

TEST_F(T1GrantLostTest, ClientsThatDieAtAnyPointLoseNothing) {
  if (!StartWithPages(kPool)) return;
  ExpectServes(kPool);
  ExpectAllBack();
  const size_t files = daemon_->OpenFiles();
  std::mt19937_64 random(1);
  for (int i = 0; i < kRounds; ++i) {
    auto client = NewClient();
    switch (i % 3) {
      case 0:  // after the reply, the descriptors are still in the socket
        client->Ask(Acquire2M(1, 5000).Set("rpc_only", ""));
        break;
      case 1:  // it has them, and has not said so
        client->Ask(Acquire2M(1, 5000).Set("noack", ""));
        break;
      default:  // at any point of the call
        client->Say(Acquire2M(1, 5000));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    }
    client->Kill();
  }
  ExpectAllBack();
  ExpectServes(kPool);
  ExpectAllBack();
  // Connections that ended a moment ago may still be in the reaper's hands.
  for (int tries = 0; daemon_->OpenFiles() > files + 8 && tries < 500;
       ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(daemon_->OpenFiles(), files + 8);
}

TEST_F(T1GrantLostTest, WithoutAcknowledgementTheGrantIsRolledBack) {
  if (!HavePages(kPool)) return;
  StartDaemon(
      {.config = PoolOf2M(kPool) + "grants: {acknowledge_within: 300ms}\n",
       .as = UnprivilegedDaemon()});
  auto client = NewClient();
  ASSERT_TRUE(client->Ask(Acquire2M(kPool).Set("rpc_only", "")).ok());
  // It lives on and never takes them: the socket is emptied by the hang-up.
  const Line other = client->Ask(Line("hangup"));
  EXPECT_TRUE(other.ok());
  ExpectAllBack();
}

}  // namespace
}  // namespace hugepool::testing
