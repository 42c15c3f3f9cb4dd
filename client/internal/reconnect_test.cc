// A daemon that goes away and comes back.
#include <string>
#include <thread>
#include <vector>

#include "client/internal/connection.h"
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

v1::AcquireRequest Request(Bytes size) {
  v1::AcquireRequest request;
  request.add_segments()->set_size_bytes(size.value());
  request.set_lifetime(v1::LIFETIME_SESSION);
  return request;
}

// Both ways of making calls.
class ReconnectTest : public ::testing::TestWithParam<bool> {
 protected:
  ReconnectTest() : daemon_({.dir = dir_.path()}) { daemon_.Start(); }

  std::shared_ptr<Connection> Connect(
      absl::Duration budget = absl::Seconds(2)) {
    auto connection =
        Connection::Connect({.dir = dir_.path(),
                             .reconnect_budget = budget,
                             .over_grpc = GetParam()});
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *connection;
  }

  TestDir dir_;
  FakeDaemon daemon_;
};

TEST_P(ReconnectTest, TakesTheSessionUpAgain) {
  const auto connection = Connect();
  const std::string session = connection->SessionId();
  auto held = connection->Acquire(Request(MiB(2)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  daemon_.Restart(/*remember=*/true);
  ASSERT_TRUE(connection->Acquire(Request(MiB(2)), {}).ok());
  EXPECT_EQ(connection->SessionId(), session);
  EXPECT_EQ(connection->Standing(held->lease.lease_id()), LeaseStanding::kHeld);
  EXPECT_EQ(daemon_.presented(), 0u);
  EXPECT_TRUE(connection->Release(held->lease.lease_id()).ok());
}

TEST_P(ReconnectTest, ADaemonThatForgotIsToldAndTheMemoryStays) {
  const auto connection = Connect();
  const std::string session = connection->SessionId();
  auto held = connection->Acquire(Request(MiB(2)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  char* const p = static_cast<char*>(held->segments[0].address());
  p[0] = 'x';
  daemon_.Restart(/*remember=*/false);
  ASSERT_TRUE(connection->Acquire(Request(MiB(2)), {}).ok());
  EXPECT_NE(connection->SessionId(), session);
  EXPECT_EQ(daemon_.presented(), 1u);
  EXPECT_EQ(connection->Standing(held->lease.lease_id()), LeaseStanding::kLost);
  EXPECT_EQ(p[0], 'x');
  EXPECT_EQ(ReasonOf(connection->Release(held->lease.lease_id()).status()),
            v1::ERROR_REASON_LEASE_GONE);
}

TEST_P(ReconnectTest, PresentedDescriptorsAreAdopted) {
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(8)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  daemon_.set_adopt(true);
  daemon_.Restart(/*remember=*/false);
  ASSERT_TRUE(connection->Acquire(Request(MiB(2)), {}).ok());
  EXPECT_EQ(daemon_.presented(), 1u);
  EXPECT_EQ(connection->Standing(held->lease.lease_id()), LeaseStanding::kHeld);
}

TEST_P(ReconnectTest, WaitsForADaemonThatComesBack) {
  const auto connection = Connect(absl::Seconds(20));
  daemon_.Stop();
  std::thread back([&] { daemon_.Start(); });
  const auto held = connection->Acquire(Request(MiB(2)), {});
  back.join();
  EXPECT_TRUE(held.ok()) << held.status();
}

TEST_P(ReconnectTest, GivesUpWhenTheBudgetIsUsedUp) {
  const auto connection = Connect(absl::Milliseconds(50));
  daemon_.Stop();
  const auto held = connection->Acquire(Request(MiB(2)), {});
  EXPECT_TRUE(IsTransportFailure(held.status())) << held.status();
  EXPECT_THAT(std::string(held.status().message()),
              ::testing::HasSubstr("is hugepoold running?"));
}

TEST_P(ReconnectTest, ASessionThatIsNotRecognisedIsMadeAnew) {
  const auto connection = Connect();
  Faults faults;
  faults.unknown_session = 1;
  daemon_.SetFaults(faults);
  EXPECT_TRUE(connection->Acquire(Request(MiB(2)), {}).ok());
  faults.unknown_session = 100;
  daemon_.SetFaults(faults);
  EXPECT_EQ(ReasonOf(connection->Acquire(Request(MiB(2)), {}).status()),
            v1::ERROR_REASON_NO_FD_CHANNEL);
}

// A program that holds a lease and makes no call.
TEST_P(ReconnectTest, ALeaseIsTakenUpWithoutACall) {
  const auto connection = Connect();
  auto held = connection->Acquire(Request(MiB(2)), {});
  ASSERT_TRUE(held.ok()) << held.status();
  for (size_t i = 1; i <= 3; ++i) {
    daemon_.Restart(/*remember=*/true);
    daemon_.WaitForResumed(i);
  }
  EXPECT_TRUE(connection->Release(held->lease.lease_id()).ok());
}

// The first reply is lost after its frames were sent: the same request is made
// again, gives the same lease, and its frames come twice.
TEST_P(ReconnectTest, ARetryGivesTheSameLease) {
  const auto connection = Connect();
  Faults faults;
  faults.lose_reply = 1;
  daemon_.SetFaults(faults);
  auto first = connection->Acquire(Request(MiB(4)), {});
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = connection->Acquire(Request(MiB(4)), {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(connection->Release(first->lease.lease_id()).ok());
  EXPECT_TRUE(connection->Release(second->lease.lease_id()).ok());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Calls, ReconnectTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "OverGrpc" : "OverTheFdChannel";
                         });

}  // namespace
}  // namespace hugepool::client
