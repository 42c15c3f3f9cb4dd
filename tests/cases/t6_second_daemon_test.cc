// T6: a second daemon on the same sockets.
#include <sys/wait.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/recount.h"

namespace hugepool::testing {
namespace {

constexpr uint64_t kPool = 8;

using T6SecondDaemonTest = CaseTest;

TEST_F(T6SecondDaemonTest, LeavesTheFirstAlone) {
  if (!StartWithPages(kPool)) return;
  auto client = NewClient();
  ASSERT_TRUE(client->Ask(Acquire2M(4)).ok());
  ASSERT_TRUE(client->Ask(Line("fill").Set("seed", uint64_t{5})).ok());
  const PageCount free = pages_->Free(k2M);
  auto second = DaemonProcess::Launch({.config = PoolOf2M(kPool),
                                       .as = UnprivilegedDaemon(),
                                       .dir = daemon_->dir()});
  ASSERT_TRUE(second.ok()) << second.status();
  const auto ended = (*second)->child().Wait(absl::Seconds(10));
  ASSERT_TRUE(ended.has_value()) << "the second daemon runs";
  EXPECT_TRUE(WIFEXITED(*ended) && WEXITSTATUS(*ended) != 0);
  const std::string log = (*second)->Log();
  EXPECT_NE(log.find("another"), std::string::npos) << log;
  EXPECT_EQ(pages_->Free(k2M), free);
  // Old connections and new ones work as before.
  EXPECT_EQ(
      client->Ask(Line("check").Set("seed", uint64_t{5})).Number("foreign", 1),
      0u);
  ExpectServes(4);
  EXPECT_TRUE(client->Ask(Line("release")).ok());
  ExpectAllBack();
}

TEST_F(T6SecondDaemonTest, TakesOverWhatAKilledOneLeft) {
  if (!StartWithPages(kPool)) return;
  daemon_->Kill();
  ASSERT_TRUE(pages_->WaitForFree(k2M, PageCount(kPool)));
  auto next = DaemonProcess::Start({.config = PoolOf2M(kPool),
                                    .as = UnprivilegedDaemon(),
                                    .dir = daemon_->dir()});
  ASSERT_TRUE(next.ok()) << next.status();
  ExpectServes(kPool);  // the client connects to the directory
  EXPECT_EQ(WaitForAllClean(next->get()), "");
  const absl::Status stopped = (*next)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
}

TEST_F(T6SecondDaemonTest, OfTwentyThatStartAtATimeOneWins) {
  if (!StartWithPages(kPool)) return;
  daemon_->Kill();  // its directory and stale sockets stay
  std::vector<std::unique_ptr<DaemonProcess>> racers;
  for (int i = 0; i < 20; ++i) {
    auto racer = DaemonProcess::Launch({.config = PoolOf2M(kPool),
                                        .as = UnprivilegedDaemon(),
                                        .dir = daemon_->dir()});
    ASSERT_TRUE(racer.ok()) << racer.status();
    racers.push_back(*std::move(racer));
  }
  const auto alive = [&] {
    size_t n = 0;
    for (auto& racer : racers) n += racer->Alive();
    return n;
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (alive() > 1 && absl::Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(alive(), 1u);
  for (auto& racer : racers) {
    if (!racer->Alive()) continue;
    const absl::Status ready = racer->WaitReady(true, absl::Seconds(20));
    ASSERT_TRUE(ready.ok()) << ready;
    ExpectServes(kPool);
    EXPECT_EQ(WaitForAllClean(racer.get()), "");
    const absl::Status stopped = racer->Stop();
    EXPECT_TRUE(stopped.ok()) << stopped;
  }
}

}  // namespace
}  // namespace hugepool::testing
