// Leases end to end: a client's sockets, the daemon's books, real descriptors.
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/time/time.h"
#include "client/hugepool.h"
#include "daemon/service/testing/wire_client.h"
#include "daemon/service/testing/world.h"
#include "gtest/gtest.h"

namespace hugepool::service {
namespace {

using testing::Client;
using testing::FdClient;
using testing::ReasonOf;
using testing::World;

uint64_t Held(World& world) {
  return world.pool().Snapshot().in(ExtentState::kHeld).value();
}

TEST(AcquireTest, DescriptorsComeBeforeTheAnswer) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(client.Acquire(Client::Request(3), &lease).ok());
  EXPECT_EQ(lease.extents_size(), 3);
  EXPECT_EQ(lease.state(), v1::LEASE_STATE_GRANTED);
  EXPECT_EQ(lease.owner().pid(), getpid());
  // There already: no waiting.
  const auto frame = client.fds.Read(absl::ZeroDuration());
  ASSERT_TRUE(frame.has_value());
  ASSERT_TRUE(frame->message.has_grant());
  EXPECT_EQ(frame->message.grant().lease_id(), lease.lease_id());
  ASSERT_EQ(frame->fds.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    struct stat facts = {};
    ASSERT_EQ(fstat(frame->fds[static_cast<size_t>(i)].get(), &facts), 0);
    EXPECT_EQ(facts.st_ino, lease.extents(i).inode());
    EXPECT_EQ(static_cast<uint64_t>(facts.st_size), uint64_t{2} << 20);
  }
  client.fds.Ack(lease);
  EXPECT_TRUE(world.WaitUntil([&] { return Held(world) == 3; }));
  EXPECT_TRUE(world.manager().CheckInvariants().ok());
}

TEST(AcquireTest, ClientLibraryAcquiresWritesAndReleases) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  hp_error error = HP_ERROR_INIT;
  hp_client* client = nullptr;
  ASSERT_EQ(hp_connect(world.dir().c_str(), &client, &error), HP_OK)
      << error.message;
  hp_request* request = nullptr;
  hp_segment_options segment = HP_SEGMENT_OPTIONS_INIT;
  segment.bytes = 4 << 20;
  ASSERT_EQ(hp_request_new(nullptr, &request, &error), HP_OK);
  ASSERT_EQ(hp_request_add_segment(request, &segment, &error), HP_OK);
  hp_lease* lease = nullptr;
  ASSERT_EQ(hp_acquire(client, request, &lease, &error), HP_OK)
      << error.message;
  hp_request_free(request);
  hp_segment_info info = HP_SEGMENT_INFO_INIT;
  ASSERT_EQ(hp_lease_segment(lease, 0, &info), HP_OK);
  ASSERT_EQ(info.bytes, uint64_t{4} << 20);
  auto* const bytes = static_cast<char*>(info.address);
  for (size_t i = 0; i < info.bytes; i += 4096) {
    ASSERT_EQ(bytes[i], 0);
    bytes[i] = 1;
  }
  EXPECT_TRUE(world.WaitUntil([&] { return Held(world) == 2; }));
  ASSERT_EQ(hp_release(lease, &error), HP_OK) << error.message;
  EXPECT_TRUE(world.WaitClean());
  EXPECT_EQ(world.manager().Count().leases, 0u);
  hp_close(client);
}

TEST(AcquireTest, RefusedGrantIsRolledBack) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(client.Acquire(Client::Request(2), &lease).ok());
  (void)client.fds.Read();  // and closes what came
  client.fds.Nack(lease);
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().leases == 0;
  }));
  EXPECT_TRUE(client.Release(lease.lease_id()).ok()) << "its end is known";
  EXPECT_EQ(ReasonOf(client.Release("lease-0000000000000001")),
            v1::ERROR_REASON_LEASE_GONE);
}

// T1: the answer arrived and the descriptors did not, or the other way round.
TEST(AcquireTest, T1GrantWithoutAcknowledgementIsRolledBack) {
  World::Options options;
  options.leases.acknowledge_within = absl::Milliseconds(50);
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(client.Acquire(Client::Request(2), &lease).ok());
  // Somebody holds the memory still: it is returning, and charged.
  EXPECT_TRUE(world.WaitUntil([&] {
    Identity admin;
    admin.admin = true;
    return world.manager()
               .List(admin, LeaseId(), 10, LeasePhase::kReturning)
               .size() == 1;
  }));
  // An acknowledgement that comes too late is told so.
  auto frame = client.fds.Read();
  ASSERT_TRUE(frame.has_value());
  client.fds.Ack(lease);
  const auto notice = client.fds.Read();
  ASSERT_TRUE(notice.has_value());
  ASSERT_TRUE(notice->message.has_revoke_notice());
  EXPECT_EQ(notice->message.revoke_notice().lease_id(), lease.lease_id());
  frame.reset();
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().leases == 0;
  }));
}

TEST(AcquireTest, ShortageSaysHowShort) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client holder(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(holder.Acquire(Client::Request(6), &lease).ok());
  const grpc::Status status = holder.Acquire(Client::Request(3), &lease);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::ErrorDetail detail;
  ASSERT_TRUE(detail.ParseFromString(status.error_details()));
  EXPECT_EQ(detail.reason(), v1::ERROR_REASON_POOL_SHORT);
  EXPECT_EQ(detail.wanted_bytes(), uint64_t{6} << 20);
  EXPECT_EQ(detail.available_bytes(), uint64_t{4} << 20);
  EXPECT_TRUE(detail.retryable());
}

TEST(AcquireTest, WaiterIsServedWhenMemoryComesBack) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client holder(world.dir());
  v1::Lease all;
  ASSERT_TRUE(holder.Acquire(Client::Request(8), &all).ok());
  auto frame = holder.fds.Read();
  holder.fds.Ack(all);
  ASSERT_TRUE(world.WaitUntil([&] { return Held(world) == 8; }));

  Client waiter(world.dir());
  v1::Lease lease;
  grpc::Status status;
  std::thread thread([&] {
    status = waiter.Acquire(Client::Request(1, absl::Seconds(30)), &lease);
  });
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Waits().size() == 1;
  }));
  frame.reset();
  EXPECT_TRUE(holder.Release(all.lease_id()).ok());
  thread.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(lease.extents_size(), 1);
}

TEST(AcquireTest, CancelledWaiterLeavesTheQueue) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client holder(world.dir());
  v1::Lease all;
  ASSERT_TRUE(holder.Acquire(Client::Request(8), &all).ok());

  grpc::ClientContext context;
  holder.Prepare(&context);
  v1::AcquireRequest request = Client::Request(1, absl::Seconds(30));
  request.set_request_id("to be cancelled");
  v1::AcquireResponse response;
  grpc::Status status;
  std::thread thread([&] {
    status = holder.stub->Acquire(&context, request, &response);
  });
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Waits().size() == 1;
  }));
  context.TryCancel();
  thread.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Waits().empty();
  }));
}

TEST(AcquireTest, WaitExpires) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease all;
  ASSERT_TRUE(client.Acquire(Client::Request(8), &all).ok());
  v1::AcquireRequest request = Client::Request(1);
  request.mutable_max_wait()->set_nanos(20'000'000);
  v1::Lease lease;
  const grpc::Status status = client.Acquire(request, &lease);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_WAIT_EXPIRED);
}

TEST(AcquireTest, NamedLeaseIsAttachedByAnotherClient) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client first(world.dir());
  v1::AcquireRequest request = Client::Request(2);
  request.set_lifetime(v1::LIFETIME_NAMED);
  request.set_name("db");
  v1::Lease lease;
  ASSERT_TRUE(first.Acquire(request, &lease).ok());
  auto mine = first.fds.Read();
  first.fds.Ack(lease);
  ASSERT_TRUE(world.WaitUntil([&] { return Held(world) == 2; }));

  Client second(world.dir());
  grpc::ClientContext context;
  second.Prepare(&context);
  v1::AttachRequest attach;
  attach.set_request_id("a1");
  attach.set_name("db");
  v1::AttachResponse response;
  const grpc::Status status = second.stub->Attach(&context, attach, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  auto frame = second.fds.Read();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->message.grant().request_id(), "a1");
  EXPECT_EQ(frame->fds.size(), 2u);
  second.fds.Ack(response.lease());
  EXPECT_GT(response.lease().generation(), lease.generation());
}

TEST(AcquireTest, RetryWithTheSameIdGivesTheSameLease) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::AcquireRequest request = Client::Request(1);
  request.set_request_id("once");
  v1::Lease first;
  v1::Lease second;
  ASSERT_TRUE(client.Acquire(request, &first).ok());
  ASSERT_TRUE(client.Acquire(request, &second).ok());
  EXPECT_EQ(first.lease_id(), second.lease_id());
  EXPECT_EQ(world.manager().Count().leases, 1u);
}

TEST(AcquireTest, ManyExtentsComeInSeveralFrames) {
  World::Options options;
  options.pages = 300;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(client.Acquire(Client::Request(300), &lease).ok());
  auto one = client.fds.Read(absl::ZeroDuration());
  auto two = client.fds.Read(absl::ZeroDuration());
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_EQ(one->message.grant().part(), 0u);
  EXPECT_EQ(two->message.grant().part(), 1u);
  EXPECT_EQ(two->message.grant().first_extent(), 253u);
  EXPECT_EQ(one->fds.size() + two->fds.size(), 300u);
}

// A client that does not read its descriptors gets no more of them, and nobody
// waits for it.
TEST(AcquireTest, SilentClientIsRefusedMore) {
  World::Options options;
  options.pages = 300;
  options.leases.max_unacknowledged_fds_per_session = 256;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(client.Acquire(Client::Request(250), &lease).ok());
  const grpc::Status status = client.Acquire(Client::Request(10), &lease);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_QUOTA);
  Client other(world.dir());
  EXPECT_TRUE(other.Acquire(Client::Request(10), &lease).ok());
}

}  // namespace
}  // namespace hugepool::service
