// N18: a pool that was drained is asked for again at once, by two clients. How
// long they wait is measured by the bench `drained`.
#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

constexpr uint64_t kPages = 512;

class N18DrainedTest : public CaseTest {
 protected:
  // A pool in extents of one size. All clients are of one domain, the test as
  // well, so that it sees who waits.
  bool Start(uint64_t pages, const std::string& shape) {
    if (!HavePages(pages)) return false;
    StartDaemon(
        {.config = absl::StrCat(
             "backend: hugetlb\n"
             "listeners: [{dir: \"@DIR@\", group: \"*\", domain: all}]\n"
             "pools: [{page_size: 2MiB, target: ",
             pages * 2, "MiB, shapes: [", shape,
             "]}]\nzeroing: {bandwidth: none}\n"),
         .as = UnprivilegedDaemon()});
    return daemon_ != nullptr;
  }
  // Has the client ask for all of the pool, and waits until it queues.
  void Queue(ClientProcess& client, uint64_t pages, RawCalls& calls,
             int waiters) {
    client.Say(Acquire2M(pages, 30000));
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (absl::Now() < deadline) {
      const auto status = calls.GetStatus();
      if (status.ok() && status->waits_size() == waiters) return;
      poll(nullptr, 0, 1);
    }
    ADD_FAILURE() << "not " << waiters << " waiters";
  }
};

TEST_F(N18DrainedTest, N18TwoWaitersAreServedInOrderAndSeeProgress) {
  // One extent, so that progress has to show within it.
  if (!Start(kPages, "1GiB")) return;
  RawCalls calls(daemon_->dir());
  auto a = NewClient(65001);
  auto b = NewClient(65002);
  auto c = NewClient(65003);
  ASSERT_TRUE(a->Ask(Acquire2M(kPages)).ok());
  Queue(*b, kPages, calls, 1);
  Queue(*c, kPages, calls, 2);
  a->Say(Line("release"));
  // What is there of what the first waits for, as it grows.
  std::vector<uint64_t> seen;
  while (true) {
    const auto status = calls.GetStatus();
    ASSERT_TRUE(status.ok()) << status.status();
    if (status->waits_size() < 2) break;
    const v1::WaitStatus& first = status->waits(0);
    EXPECT_EQ(first.wanted_bytes(), kPages << 21);
    EXPECT_EQ(first.position(), 0u);
    seen.push_back(first.available_bytes());
  }
  EXPECT_TRUE(a->Answer().ok());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_TRUE(std::any_of(
      seen.begin(), seen.end(),
      [](uint64_t bytes) { return bytes > 0 && bytes < kPages << 21; }))
      << seen.size() << " looks, and none between nothing and all";
  const Line got_b = b->Answer();
  ASSERT_TRUE(got_b.ok()) << got_b;
  const auto status = calls.GetStatus();
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(status->waits_size(), 1) << "the second was not served before";
  EXPECT_EQ(status->waits(0).position(), 0u);
  ASSERT_TRUE(b->Ask(Line("release")).ok());
  const Line got_c = c->Answer();
  ASSERT_TRUE(got_c.ok()) << got_c;
  EXPECT_EQ(c->Ask(Line("zero")).Number("nonzero", 1), 0u);
  EXPECT_TRUE(c->Ask(Line("release")).ok());
  ExpectAllBack();
}

// Those who come later and want little may pass, but only so often.
TEST_F(N18DrainedTest, N18TheSecondIsNotStarvedByThoseWhoComeLater) {
  if (!Start(64, "2MiB")) return;
  RawCalls calls(daemon_->dir());
  auto a = NewClient(65001);
  auto b = NewClient(65002);
  auto c = NewClient(65003);
  ASSERT_TRUE(a->Ask(Acquire2M(64)).ok());
  Queue(*b, 64, calls, 1);
  Queue(*c, 64, calls, 2);
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  a->Say(Line("release"));
  auto d = NewClient(65004);
  // One page after the other, at once given back, until both were served.
  bool served_b = false;
  for (int i = 0; i < 100000; ++i) {
    if (d->Ask(Acquire2M(1)).ok()) d->Ask(Line("release"));
    const int waits = calls.GetStatus()->waits_size();
    if (waits == 1 && !served_b) {
      served_b = true;
      b->Say(Line("release"));
    }
    if (waits == 0) break;
    ASSERT_LT(absl::Now(), deadline)
        << "starved: " << calls.GetStatus()->ShortDebugString();
  }
  EXPECT_TRUE(a->Answer().ok());
  EXPECT_TRUE(b->Answer().ok());
  EXPECT_TRUE(b->Answer().ok());
  EXPECT_TRUE(c->Answer().ok());
  EXPECT_TRUE(c->Ask(Line("release")).ok());
  ExpectAllBack();
}

// Events tell how far it is, and are silent at rest.
TEST_F(N18DrainedTest, N18ProgressIsTold) {
  if (!Start(kPages, "1GiB")) return;
  ProgramResult events;
  auto client = NewClient();
  std::thread watcher([&] {
    events = RunProgram({RunfilePath("client/hpctl/hpctl"), "--socket",
                         daemon_->dir(), "events", "--pools", "--for", "3s"});
  });
  // Until the stream is there and afterwards: the pool is emptied and filled.
  const absl::Time end = absl::Now() + absl::Seconds(2);
  while (absl::Now() < end) {
    EXPECT_TRUE(client->Ask(Acquire2M(kPages, 10000)).ok());
    EXPECT_TRUE(client->Ask(Line("release")).ok());
  }
  watcher.join();
  EXPECT_EQ(events.exit_code, 0) << events.errors;
  EXPECT_TRUE(absl::StrContains(events.output, "progress ")) << events.output;
  EXPECT_TRUE(absl::StrContains(events.output, "1 GiB of 1 GiB"))
      << events.output;
}

}  // namespace
}  // namespace hugepool::testing
