// T12: descriptors that cannot be received, and many of them. The client
// library in this process, since it is the one that must notice.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"

namespace hugepool::testing {
namespace {

// The limit of open files is that of now and `more`, until the end.
class FewFiles {
 public:
  explicit FewFiles(uint64_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next) + more;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

using T12DescriptorsTest = CaseTest;

TEST_F(T12DescriptorsTest, WhatCannotBeReceivedComesBack) {
  if (!StartWithPages(8)) return;
  auto client = Client::Connect(daemon_->dir());
  ASSERT_TRUE(client.ok()) << client.error().message();
  {
    // Opens the connections.
    auto first = client->Acquire(Request().Segment(2 << 20));
    ASSERT_TRUE(first.ok()) << first.error().message();
  }
  {
    FewFiles few(1);
    auto lease = client->Acquire(
        Request().Segment(16 << 20).Wait(std::chrono::seconds(5)));
    ASSERT_FALSE(lease.ok());
    EXPECT_EQ(lease.error().code(), HP_RESOURCE_EXHAUSTED)
        << lease.error().message();
    EXPECT_NE(std::string(lease.error().message()).find("RLIMIT_NOFILE"),
              std::string::npos)
        << lease.error().message();
  }
  ExpectAllBack();
  auto lease = client->Acquire(
      Request().Segment(16 << 20).Wait(std::chrono::seconds(5)));
  ASSERT_TRUE(lease.ok()) << lease.error().message();
  EXPECT_EQ(lease->extent_count(), 8u);
}

TEST_F(T12DescriptorsTest, FourHundredInOneLease) {
  constexpr uint64_t kMany = 400;
  if (!StartWithPages(kMany)) return;
  auto client = Client::Connect(daemon_->dir());
  ASSERT_TRUE(client.ok()) << client.error().message();
  auto lease = client->Acquire(Request().Segment(kMany << 21));
  ASSERT_TRUE(lease.ok()) << lease.error().message();
  EXPECT_EQ(lease->extent_count(), kMany);
  std::set<int> fds;
  for (size_t i = 0; i < lease->extent_count(); ++i) {
    const hp_extent_info extent = lease->extent(i);
    fds.insert(extent.fd);
    EXPECT_EQ(fcntl(extent.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_EQ(fds.size(), kMany);
  EXPECT_TRUE(lease->Release().ok());
  ExpectAllBack();
}

// Not acknowledged, they count against the one who asked, not against others.
TEST_F(T12DescriptorsTest, ASilentClientDoesNotStopTheOthers) {
  constexpr uint64_t kMany = 64;
  if (!HavePages(kMany)) return;
  StartDaemon({.config = PoolOf2M(kMany) +
                         "grants: {max_unacknowledged_fds_per_session: 16}\n",
               .as = UnprivilegedDaemon()});
  auto silent = NewClient();
  ASSERT_TRUE(silent->Ask(Acquire2M(16).Set("rpc_only", "")).ok());
  const Line more = silent->Ask(Acquire2M(1).Set("rpc_only", ""));
  EXPECT_EQ(more.Get("reason"), "ERROR_REASON_QUOTA") << more;
  ExpectServes(8);
}

}  // namespace
}  // namespace hugepool::testing
