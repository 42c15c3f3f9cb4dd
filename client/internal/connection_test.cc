#include "client/internal/connection.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "client/internal/errors.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::Faults;
using ::hugepool::testing::TestDir;
using ::testing::HasSubstr;

v1::AcquireRequest Request(Bytes size, int segments = 1) {
  v1::AcquireRequest request;
  for (int i = 0; i < segments; ++i) {
    request.add_segments()->set_size_bytes(size.value());
  }
  request.set_lifetime(v1::LIFETIME_SESSION);
  return request;
}

// Both ways of making calls.
class ConnectionTest : public ::testing::TestWithParam<bool> {
 protected:
  ConnectionTest() : daemon_({.dir = dir_.path()}) { daemon_.Start(); }

  std::shared_ptr<Connection> Connect() {
    auto connection = Connection::Connect(
        {.dir = dir_.path(), .over_grpc = GetParam()});
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *connection;
  }

  TestDir dir_;
  FakeDaemon daemon_;
};

TEST_P(ConnectionTest, AcquireMapWriteRelease) {
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(5), 2), {});
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(held->segments.size(), 2u);
  ASSERT_EQ(held->fds->size(), 6u);
  for (const MappedRange& range : held->segments) {
    EXPECT_EQ(range.size(), MiB(6));
    char* const p = static_cast<char*>(range.address());
    EXPECT_EQ(p[0], 0);
    std::memset(p, 0x5a, range.size().value());
  }
  daemon_.WaitForAnswers(1);
  EXPECT_THAT(daemon_.acked(), ::testing::ElementsAre(held->lease.lease_id()));
  const std::string id = held->lease.lease_id();
  *held = HeldLease();
  const auto released = connection->Release(id);
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_EQ(*released, MiB(12));
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_P(ConnectionTest, ManyFramesKeepTheOrder) {
  daemon_.Stop();
  FakeDaemon large({.dir = dir_.path(), .capacity = GiB(4)});
  large.Start();
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(1200)), {});
  ASSERT_TRUE(held.ok()) << held.status();  // CheckExtents compares the inodes
  EXPECT_EQ(held->fds->size(), 600u);
}

TEST_P(ConnectionTest, WithoutMapping) {
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(2)), {.map = false});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(held->segments.empty());
  EXPECT_EQ(held->fds->size(), 1u);
}

TEST_P(ConnectionTest, EightThreadsAtATime) {
  const auto connection = Connect();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto held = connection->Acquire(Request(MiB(2 + 2 * (t % 3))), {});
        if (!held.ok()) {
          ADD_FAILURE() << held.status();
          failures.fetch_add(1, std::memory_order_relaxed);
          return;
        }
        // Nobody else has this memory.
        char* const p = static_cast<char*>(held->segments[0].address());
        EXPECT_EQ(p[0], 0);
        p[0] = static_cast<char>(t + 1);
        const std::string id = held->lease.lease_id();
        EXPECT_EQ(p[0], t + 1);
        *held = HeldLease();
        EXPECT_TRUE(connection->Release(id).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(std::memory_order_relaxed), 0);
  daemon_.WaitForAnswers(400);
  EXPECT_TRUE(daemon_.nacked().empty());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

// N7: descriptor numbers come again with every lease; ids do not.
TEST_P(ConnectionTest, N7AThousandLeasesWithTheSameDescriptors) {
  const auto connection = Connect();
  std::string last;
  for (int i = 0; i < 1000; ++i) {
    auto held = connection->Acquire(Request(MiB(2)), {});
    ASSERT_TRUE(held.ok()) << held.status();
    auto* const p = static_cast<uint32_t*>(held->segments[0].address());
    ASSERT_EQ(p[0], 0u);
    p[0] = 0xabc00000u + static_cast<uint32_t>(i);
    uint32_t seen = 0;
    ASSERT_EQ(pread(held->fds->front().get(), &seen, sizeof seen, 0),
              static_cast<ssize_t>(sizeof seen));
    ASSERT_EQ(seen, 0xabc00000u + static_cast<uint32_t>(i));
    const std::string id = held->lease.lease_id();
    ASSERT_NE(id, last);
    last = id;
    *held = HeldLease();
    ASSERT_TRUE(connection->Release(id).ok());
  }
}

TEST_P(ConnectionTest, N21OddSizes) {
  const auto connection = Connect();
  for (const Bytes size : {Bytes(1), MiB(2) + Bytes(1)}) {
    auto held = connection->Acquire(Request(size), {});
    ASSERT_TRUE(held.ok()) << held.status();
    const Bytes granted = held->segments[0].size();
    EXPECT_EQ(granted.value() % MiB(2).value(), 0u);
    EXPECT_GE(granted, size);
  }
  const auto huge = connection->Acquire(Request(Bytes(uint64_t{1} << 63)), {});
  EXPECT_EQ(ReasonOf(huge.status()), v1::ERROR_REASON_NEVER_FITS);
}

TEST_P(ConnectionTest, ErrorDetailComesThrough) {
  Faults faults;
  faults.deny_code = absl::StatusCode::kResourceExhausted;
  faults.deny_text = "too little";
  faults.deny_detail.set_reason(v1::ERROR_REASON_QUOTA);
  faults.deny_detail.set_retryable(true);
  faults.deny_detail.set_wanted_bytes(10);
  faults.deny_detail.set_available_bytes(5);
  faults.deny_detail.set_hint("ask for less");
  daemon_.SetFaults(faults);
  const auto held = Connect()->Acquire(Request(MiB(2)), {});
  ASSERT_EQ(held.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(held.status().message(), "too little");
  const auto detail = ErrorDetailOf(held.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->SerializeAsString(),
            faults.deny_detail.SerializeAsString());
}

TEST_P(ConnectionTest, WrongDescriptorsAreRefused) {
  Faults faults;
  faults.wrong_inode = true;
  daemon_.SetFaults(faults);
  const auto held = Connect()->Acquire(Request(MiB(2)), {});
  EXPECT_EQ(held.status().code(), absl::StatusCode::kInternal);
  daemon_.WaitForAnswers(1);
  EXPECT_EQ(daemon_.nacked().size(), 1u);
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_P(ConnectionTest, AttachGivesTheSameMemory) {
  v1::AcquireRequest request = Request(MiB(2));
  request.set_lifetime(v1::LIFETIME_NAMED);
  request.set_name("buffers");
  const auto first = Connect();
  auto held = first->Acquire(request, {});
  ASSERT_TRUE(held.ok()) << held.status();
  static_cast<char*>(held->segments[0].address())[7] = 'x';
  const auto second = Connect();
  v1::AttachRequest attach;
  attach.set_name("buffers");
  auto again = second->Attach(attach, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(static_cast<char*>(again->segments[0].address())[7], 'x');
  attach.set_name("nothing");
  EXPECT_EQ(ReasonOf(second->Attach(attach, {}).status()),
            v1::ERROR_REASON_LEASE_GONE);
  EXPECT_TRUE(second->ReleaseByName("buffers").ok());
}

TEST_P(ConnectionTest, ARevokeNoticeShows) {
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(2)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  const std::string& id = held->lease.lease_id();
  EXPECT_EQ(connection->Standing(id), LeaseStanding::kHeld);
  daemon_.SendRevokeNotice(id);
  EXPECT_EQ(connection->Standing(id), LeaseStanding::kRevoked);
}

TEST_P(ConnectionTest, AForkedChildIsRefused) {
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(2)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  const pid_t child = fork();
  if (child == 0) {
    const bool refused =
        absl::IsFailedPrecondition(
            connection->Acquire(Request(MiB(2)), {}).status()) &&
        absl::IsFailedPrecondition(
            connection->Release(held->lease.lease_id()).status());
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(connection->Release(held->lease.lease_id()).ok());
}

INSTANTIATE_TEST_SUITE_P(Calls, ConnectionTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "OverGrpc" : "OverTheFdChannel";
                         });

TEST_P(ConnectionTest, CallsGoTheWayTheyWereAskedTo) {
  const auto connection = Connect();
  ASSERT_TRUE(connection->Acquire(Request(MiB(2)), {}).ok());
  EXPECT_EQ(daemon_.fds().calls(), GetParam() ? 0u : 1u);
}

TEST(CallsTest, OverGrpcToADaemonThatKnowsNoOtherWay) {
  TestDir dir;
  FakeDaemon older({.dir = dir.path(), .calls = false});
  older.Start();
  const auto connection = Connection::Connect({.dir = dir.path()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto held = (*connection)->Acquire(Request(MiB(2)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE((*connection)->Release(held->lease.lease_id()).ok());
}

TEST(CallsTest, OverGrpcWhatIsTooLongForAFrame) {
  TestDir dir;
  FakeDaemon daemon({.dir = dir.path()});
  daemon.Start();
  const auto connection = Connection::Connect({.dir = dir.path()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  v1::AcquireRequest request = Request(MiB(2));
  (*request.mutable_labels())["long"] = std::string(64 << 10, 'x');
  const auto held = (*connection)->Acquire(request, {});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(daemon.fds().calls(), 0u);
  EXPECT_EQ(daemon.last_request().labels().at("long").size(), size_t{64} << 10);
}

TEST(CallsTest, WithoutAnAnswerTheCallIsTakenBack) {
  TestDir dir;
  FakeDaemon daemon({.dir = dir.path()});
  daemon.Start();
  Faults faults;
  faults.silent = true;
  daemon.SetFaults(faults);
  const auto connection = Connection::Connect(
      {.dir = dir.path(), .call_timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto held = (*connection)->Acquire(Request(MiB(2)), {});
  EXPECT_EQ(held.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(held.status().message(),
            dir.path() + "/fd.sock: the daemon did not answer within the time "
                         "that a call may take");
  daemon.fds().WaitForCancelled(1);
  // The connection is of use again when the daemon is.
  daemon.SetFaults({});
  EXPECT_TRUE((*connection)->Acquire(Request(MiB(2)), {}).ok());
}

TEST(ConnectionErrorTest, NoDaemon) {
  TestDir dir;
  const auto connection = Connection::Connect({.dir = dir.path()});
  EXPECT_TRUE(IsTransportFailure(connection.status()));
  EXPECT_EQ(connection.status().message(),
            "no daemon listens at " + dir.path() +
                "/fd.sock: is hugepoold running? (connect: ENOENT)");
}

// N49, the client's part.
TEST(ConnectionErrorTest, PathTooLong) {
  const auto connection =
      Connection::Connect({.dir = "/tmp/" + std::string(200, 'x')});
  EXPECT_EQ(connection.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(connection.status().message()),
              HasSubstr("at most 107"));
}

}  // namespace
}  // namespace hugepool::client
