// T12: descriptors that get lost in recvmsg.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "client/internal/connection.h"
#include "client/internal/errors.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::TestDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

v1::AcquireRequest Request(Bytes size) {
  v1::AcquireRequest request;
  request.add_segments()->set_size_bytes(size.value());
  return request;
}

// Leaves room for `room` descriptors more, for as long as it lives.
class FullTable {
 public:
  explicit FullTable(int room) {
    getrlimit(RLIMIT_NOFILE, &old_);
    int highest = 0;
    for (int fd = 0; fd < 4096; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) highest = fd;
    }
    // The limit is one of numbers: no hole may be left below it.
    for (;;) {
      const int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
      if (fd > highest) {
        close(fd);
        break;
      }
      fillers_.push_back(fd);
    }
    rlimit limit = old_;
    limit.rlim_cur = static_cast<rlim_t>(highest + 1 + room);
    setrlimit(RLIMIT_NOFILE, &limit);
    limit_ = limit.rlim_cur;
  }
  ~FullTable() {
    setrlimit(RLIMIT_NOFILE, &old_);
    for (const int fd : fillers_) close(fd);
  }
  rlim_t limit() const { return limit_; }

 private:
  rlimit old_ = {};
  rlim_t limit_ = 0;
  std::vector<int> fillers_;
};

// Descriptors of extents in this process: the daemon's and the client's.
int OpenExtents() {
  int n = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    n += absl::StrContains(
        std::filesystem::read_symlink(entry.path(), gone).string(),
        "memfd:fake-extent");
  }
  return n;
}

TEST(FdLimitTest, T12AClearErrorAndNothingLeft) {
  TestDir dir;
  FakeDaemon daemon({.dir = dir.path()});
  daemon.Start();
  auto connection = Connection::Connect({.dir = dir.path()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  // gRPC opens what it needs with the first call.
  ASSERT_TRUE((*connection)->Acquire(Request(MiB(2)), {}).ok());
  daemon.Stock(8);
  const int before = OpenExtents();
  absl::Status status;
  rlim_t limit = 0;
  {
    const FullTable full(1);
    limit = full.limit();
    status = (*connection)->Acquire(Request(MiB(16)), {}).status();
  }
  ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1 of 8"),
                    HasSubstr("RLIMIT_NOFILE, is " + std::to_string(limit))));
  daemon.WaitForAnswers(2);
  ASSERT_EQ(daemon.nacked().size(), 1u);
  EXPECT_THAT(daemon.nacked()[0].reason(), HasSubstr("RLIMIT_NOFILE"));
  // All of the grant went back: the daemon has closed its eight too.
  EXPECT_EQ(OpenExtents(), before - 8);
  EXPECT_EQ(daemon.leased(), MiB(2));
  EXPECT_TRUE((*connection)->Acquire(Request(MiB(16)), {}).ok());
}

TEST(FdLimitTest, T12DescriptorsAreCloseOnExec) {
  TestDir dir;
  FakeDaemon daemon({.dir = dir.path()});
  daemon.Start();
  auto connection = Connection::Connect({.dir = dir.path()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto held = (*connection)->Acquire(Request(MiB(16)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  for (const UniqueFd& fd : *held->fds) {
    EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  }
}

TEST(FdLimitTest, FramesThatNeverComeAreAnError) {
  TestDir dir;
  FakeDaemon daemon({.dir = dir.path()});
  daemon.Start();
  hugepool::testing::Faults faults;
  faults.drop_frames = 1;
  daemon.SetFaults(faults);
  auto connection = Connection::Connect(
      {.dir = dir.path(), .frame_timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ((*connection)->Acquire(Request(MiB(2)), {}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE((*connection)->Acquire(Request(MiB(2)), {}).ok());
}

}  // namespace
}  // namespace hugepool::client
