// Acquire, Attach and Release over the fd channel.
#include <string>
#include <thread>

#include "daemon/service/testing/wire_client.h"
#include "daemon/service/testing/world.h"
#include "gtest/gtest.h"

namespace hugepool::service {
namespace {

using testing::Client;
using testing::FdClient;
using testing::World;

v1::Call AcquireCall(uint64_t pages, const std::string& request_id,
                     absl::Duration wait = absl::ZeroDuration()) {
  v1::Call call;
  *call.mutable_acquire() = Client::Request(pages, wait);
  call.mutable_acquire()->set_request_id(request_id);
  return call;
}

v1::Call ReleaseCall(const std::string& lease_id) {
  v1::Call call;
  call.mutable_release()->set_lease_id(lease_id);
  return call;
}

int Code(absl::StatusCode code) { return static_cast<int>(code); }

uint64_t Held(World& world) {
  return world.pool().Snapshot().in(ExtentState::kHeld).value();
}

// Has a session; says what it leases and reads what it gets.
class FdCallsTest : public ::testing::Test {
 protected:
  FdCallsTest() : client_(world_.dir()) {
    EXPECT_TRUE(world_.WaitClean());
    EXPECT_TRUE(client_.Greet());
  }

  v1::Answer Ask(v1::Call call) {
    return client_.ReadAnswer(client_.Call(std::move(call)));
  }
  // Leases and acknowledges; its descriptors are in client_.others.
  v1::Lease Lease(uint64_t pages, const std::string& request_id) {
    const v1::Answer answer = Ask(AcquireCall(pages, request_id));
    EXPECT_EQ(answer.code(), 0) << answer.text();
    client_.Ack(answer.acquire().lease());
    return answer.acquire().lease();
  }
  bool OneWaits() {
    return world_.WaitUntil([&] { return world_.manager().Waits().size() == 1; });
  }

  World world_;
  FdClient client_;
};

TEST_F(FdCallsTest, WelcomeSaysThatCallsAreUnderstood) {
  EXPECT_TRUE(client_.welcome.calls());
}

TEST_F(FdCallsTest, DescriptorsComeBeforeTheAnswer) {
  const uint64_t id = client_.Call(AcquireCall(3, "r1"));
  const auto first = client_.Read();
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(first->message.has_grant());
  EXPECT_EQ(first->fds.size(), 3u);
  const auto second = client_.Read();
  ASSERT_TRUE(second.has_value());
  ASSERT_TRUE(second->message.has_answer());
  const v1::Answer& answer = second->message.answer();
  EXPECT_EQ(answer.call_id(), id);
  EXPECT_EQ(answer.code(), 0);
  EXPECT_FALSE(answer.has_error());
  EXPECT_FALSE(answer.more());
  EXPECT_EQ(answer.acquire().frames(), 1u);
  EXPECT_EQ(answer.acquire().lease().lease_id(),
            first->message.grant().lease_id());
  EXPECT_EQ(answer.acquire().lease().extents_size(), 3);
  client_.Ack(answer.acquire().lease());
  EXPECT_TRUE(world_.WaitUntil([&] { return Held(world_) == 3; }));
}

TEST_F(FdCallsTest, ReleaseGivesTheMemoryBack) {
  const v1::Lease lease = Lease(2, "r1");
  client_.others.clear();
  const v1::Answer answer = Ask(ReleaseCall(lease.lease_id()));
  EXPECT_EQ(answer.code(), 0) << answer.text();
  EXPECT_EQ(answer.release().released_bytes(), uint64_t{4} << 20);
  EXPECT_TRUE(world_.WaitClean());
}

// The two ways lead to the same books.
TEST_F(FdCallsTest, LeasedHereReleasedOverGrpc) {
  Client other(world_.dir());
  const v1::Lease lease = Lease(2, "r1");
  client_.others.clear();
  EXPECT_TRUE(other.Release(lease.lease_id()).ok());
  EXPECT_TRUE(world_.WaitClean());
}

TEST_F(FdCallsTest, SameRequestIdIsTheSameLease) {
  const v1::Lease first = Lease(1, "r1");
  const v1::Answer again = Ask(AcquireCall(1, "r1"));
  EXPECT_EQ(again.code(), 0) << again.text();
  EXPECT_EQ(again.acquire().lease().lease_id(), first.lease_id());
  EXPECT_EQ(world_.manager().Count().leases, 1u);
}

TEST_F(FdCallsTest, NamedLeaseIsAttachedAgain) {
  v1::Call named = AcquireCall(1, "r1");
  named.mutable_acquire()->set_lifetime(v1::LIFETIME_NAMED);
  named.mutable_acquire()->set_name("buffers");
  const v1::Answer first = Ask(named);
  ASSERT_EQ(first.code(), 0) << first.text();
  client_.Ack(first.acquire().lease());
  client_.others.clear();
  v1::Call attach;
  attach.mutable_attach()->set_request_id("r2");
  attach.mutable_attach()->set_name("buffers");
  const v1::Answer again = Ask(attach);
  ASSERT_EQ(again.code(), 0) << again.text();
  EXPECT_EQ(again.attach().lease().lease_id(),
            first.acquire().lease().lease_id());
  ASSERT_EQ(client_.others.size(), 1u);
  EXPECT_EQ(client_.others[0].message.grant().request_id(), "r2");
  EXPECT_EQ(client_.others[0].fds.size(), 1u);
  v1::Call release;
  release.mutable_release()->set_name("buffers");
  EXPECT_EQ(Ask(release).code(), 0);
}

TEST_F(FdCallsTest, RefusalsAreThoseOfGrpc) {
  const v1::Lease all = Lease(6, "r1");
  const v1::Answer shortage = Ask(AcquireCall(3, "r2"));
  EXPECT_EQ(shortage.code(), Code(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(shortage.error().reason(), v1::ERROR_REASON_POOL_SHORT);
  EXPECT_EQ(shortage.error().available_bytes(), uint64_t{4} << 20);
  EXPECT_TRUE(shortage.error().retryable());
  EXPECT_FALSE(shortage.text().empty());

  v1::Call unknown = AcquireCall(1, "r3");
  unknown.mutable_acquire()->mutable_segments(0)->add_page_sizes(4 << 20);
  EXPECT_EQ(Ask(unknown).error().reason(), v1::ERROR_REASON_UNKNOWN_PAGE_SIZE);
  EXPECT_EQ(Ask(AcquireCall(1, "")).error().reason(),
            v1::ERROR_REASON_BAD_REQUEST);
  v1::Call attach;
  attach.mutable_attach()->set_request_id("r4");
  EXPECT_EQ(Ask(attach).error().reason(), v1::ERROR_REASON_BAD_REQUEST);
  EXPECT_EQ(Ask(ReleaseCall("")).error().reason(),
            v1::ERROR_REASON_BAD_REQUEST);
  EXPECT_EQ(Ask(ReleaseCall("lease-0000000000000001")).error().reason(),
            v1::ERROR_REASON_LEASE_GONE);
  v1::Call part = ReleaseCall(all.lease_id());
  part.mutable_release()->add_ranges()->set_size_bytes(1);
  EXPECT_EQ(Ask(part).error().reason(), v1::ERROR_REASON_BAD_REQUEST);
  EXPECT_EQ(world_.manager().Count().leases, 1u);
}

TEST_F(FdCallsTest, CallOfNoKindIsRefusedAndTheConnectionGoesOn) {
  const v1::Answer answer = Ask(v1::Call());
  EXPECT_EQ(answer.code(), Code(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(answer.error().reason(), v1::ERROR_REASON_BAD_REQUEST);
  Lease(1, "r1");
}

TEST_F(FdCallsTest, CallBeforeTheHelloEndsTheConnection) {
  FdClient rude(world_.dir());
  rude.Call(AcquireCall(1, "r1"));
  EXPECT_EQ(rude.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
  EXPECT_EQ(world_.manager().Count().leases, 0u);
}

TEST_F(FdCallsTest, WaiterIsAnsweredWhenMemoryComesBack) {
  const v1::Lease all = Lease(8, "r1");
  const uint64_t waiting =
      client_.Call(AcquireCall(1, "r2", absl::Seconds(30)));
  ASSERT_TRUE(OneWaits());
  // Other calls of the connection go on.
  EXPECT_EQ(Ask(AcquireCall(1, "r3")).error().reason(),
            v1::ERROR_REASON_POOL_SHORT);
  client_.others.clear();
  EXPECT_EQ(Ask(ReleaseCall(all.lease_id())).code(), 0);
  const v1::Answer answer = client_.ReadAnswer(waiting);
  EXPECT_EQ(answer.code(), 0) << answer.text();
  EXPECT_EQ(answer.acquire().lease().extents_size(), 1);
}

TEST_F(FdCallsTest, CancelledWaiterIsAnsweredAndLeavesTheQueue) {
  Lease(8, "r1");
  const uint64_t waiting =
      client_.Call(AcquireCall(1, "r2", absl::Seconds(30)));
  ASSERT_TRUE(OneWaits());
  v1::ClientFrame cancel;
  cancel.mutable_cancel_call()->set_request_id("r2");
  ASSERT_TRUE(client_.Send(cancel));
  EXPECT_EQ(client_.ReadAnswer(waiting).code(),
            Code(absl::StatusCode::kCancelled));
  EXPECT_TRUE(world_.manager().Waits().empty());
  // Of what there is not, or what has its memory: nothing happens.
  ASSERT_TRUE(client_.Send(cancel));
  cancel.mutable_cancel_call()->set_request_id("r1");
  ASSERT_TRUE(client_.Send(cancel));
  EXPECT_EQ(Ask(AcquireCall(1, "r3")).error().reason(),
            v1::ERROR_REASON_POOL_SHORT);
  EXPECT_EQ(world_.manager().Count().leases, 1u);
}

TEST_F(FdCallsTest, EndOfTheConnectionEndsItsWaits) {
  Lease(8, "r1");
  {
    FdClient other(world_.dir());
    ASSERT_TRUE(other.Greet());
    other.Call(AcquireCall(1, "r1", absl::Seconds(30)));
    ASSERT_TRUE(OneWaits());
  }
  EXPECT_TRUE(
      world_.WaitUntil([&] { return world_.manager().Waits().empty(); }));
}

TEST_F(FdCallsTest, WaiterIsToldThatTheDaemonStops) {
  Lease(8, "r1");
  const uint64_t waiting =
      client_.Call(AcquireCall(1, "r2", absl::Seconds(30)));
  ASSERT_TRUE(OneWaits());
  std::thread stop([&] { world_.service().Stop(absl::Seconds(5)); });
  const v1::Answer answer = client_.ReadAnswer(waiting);
  EXPECT_EQ(answer.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_EQ(answer.error().reason(), v1::ERROR_REASON_DRAINING);
  stop.join();
}

TEST(FdCallsLimitsTest, ManyExtentsComeInSeveralAnswers) {
  World::Options options;
  options.pages = 300;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  const v1::Answer answer = client.ReadAnswer(client.Call(AcquireCall(300, "r")));
  ASSERT_EQ(answer.code(), 0) << answer.text();
  const v1::Lease& lease = answer.acquire().lease();
  EXPECT_EQ(lease.segments_size(), 1) << "merging is the whole, nothing twice";
  ASSERT_EQ(lease.extents_size(), 300);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(lease.extents(i).offset(), static_cast<uint64_t>(i) << 21);
  }
  EXPECT_EQ(client.others.size(), 2u);
}

// Answers are never dropped: who does not read them loses the connection, and
// costs the daemon no more than the limit.
TEST(FdCallsLimitsTest, ClientThatDoesNotReadIsHungUpOn) {
  World::Options options;
  options.fd.queue.max_queued_answer_bytes = 4096;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  v1::ClientFrame frame;
  *frame.mutable_call() = ReleaseCall("lease-0000000000000001");
  int sent = 0;
  while (sent < 1000000 && client.Send(frame)) ++sent;
  EXPECT_LT(sent, 1000000);
  FdClient other(world.dir());
  ASSERT_TRUE(other.Greet());
  EXPECT_EQ(other.ReadAnswer(other.Call(AcquireCall(1, "r1"))).code(), 0);
}

}  // namespace
}  // namespace hugepool::service
