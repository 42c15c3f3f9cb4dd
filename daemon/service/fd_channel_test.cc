// The fd channel against clients that do it wrong, die, or come back.
#include "daemon/service/fd_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "daemon/service/testing/wire_client.h"
#include "daemon/service/testing/world.h"
#include "gtest/gtest.h"

namespace hugepool::service {
namespace {

using testing::Client;
using testing::FdClient;
using testing::ReasonOf;
using testing::World;

// Runs `f` in a child process and gives its exit status. The child makes plain
// system calls only: gRPC has threads here.
template <typename F>
int InChild(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FdChannelTest, WelcomeTellsTheLimits) {
  World::Options options;
  options.domain = "tenants";
  World world(options);
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  EXPECT_EQ(client.welcome.protocol_version(), 1u);
  EXPECT_EQ(client.welcome.session_secret().size(), 16u);
  EXPECT_EQ(client.welcome.max_fds_per_frame(), 253u);
  EXPECT_EQ(client.welcome.acknowledge_within_ms(), 5000u);
  EXPECT_EQ(client.welcome.domain(), "tenants");
  EXPECT_FALSE(client.welcome.resumed());
}

TEST(FdChannelTest, WrongVersion) {
  World world;
  FdClient client(world.dir());
  v1::ClientFrame hello;
  hello.mutable_hello()->set_protocol_version(2);
  ASSERT_TRUE(client.Send(hello));
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_WRONG_VERSION);
  EXPECT_EQ(world.manager().Count().sessions, 0u);
}

TEST(FdChannelTest, HelloComesFirst) {
  World world;
  FdClient client(world.dir());
  v1::Lease lease;
  lease.set_lease_id("lease-0000000000000001");
  client.Ack(lease);
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
}

TEST(FdChannelTest, HelloComesOnce) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  EXPECT_FALSE(client.Greet());
}

TEST(FdChannelTest, MalformedFrame) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  ASSERT_TRUE(client.SendBytes("\xff\xff\xff"));
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
  // And the end, once it was told.
  const auto end = client.Read();
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->end);
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().sessions == 0;
  }));
}

TEST(FdChannelTest, UnknownFrame) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  ASSERT_TRUE(client.SendBytes(std::string("\xa2\x06\x00", 3)));  // field 100
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
}

TEST(FdChannelTest, OversizedFrame) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  ASSERT_TRUE(client.SendBytes(std::string(kMaxFrameBytes + 1, 'x')));
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
}

// A packet of no bytes reads as the end of the file: that is what it means.
TEST(FdChannelTest, EmptyPacketEndsTheConnection) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  ASSERT_TRUE(client.SendBytes(""));
  const auto end = client.Read();
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->end);
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().sessions == 0;
  }));
}

TEST(FdChannelTest, NoHelloInTime) {
  World::Options options;
  options.fd.hello_within = absl::Milliseconds(30);
  World world(options);
  FdClient client(world.dir());
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
}

TEST(FdChannelTest, LeavingClientThatStaysIsClosed) {
  World::Options options;
  options.fd.hello_within = absl::Milliseconds(10);
  options.fd.leave_within = absl::Milliseconds(10);
  World world(options);
  FdClient client(world.dir());
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
  const auto end = client.Read();
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->end);
}

// Where the kernel cannot refuse descriptors of clients, the daemon does.
TEST(FdChannelTest, DescriptorsFromClientsAreRefused) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  v1::ClientFrame frame;
  frame.mutable_grant_nack()->set_lease_id("x");
  const UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!client.Send(frame, {fd.get()})) {
    EXPECT_EQ(errno, EPERM);  // SO_PASSRIGHTS is off
    return;
  }
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_BAD_FRAME);
}

TEST(FdChannelTest, PresentedMemoryIsNotAdopted) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  v1::ClientFrame frame;
  frame.mutable_present()->set_lease_id("lease-1");
  frame.mutable_present()->set_parts(1);
  ASSERT_TRUE(client.Send(frame));
  const auto answer = client.Read();
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->message.has_present_result());
  EXPECT_FALSE(answer->message.present_result().adopted());
}

TEST(FdChannelTest, WrongSecretIsNoSession) {
  World world;
  Client client(world.dir());
  client.fds.welcome.set_session_secret(std::string(16, 'x'));
  v1::Lease lease;
  const grpc::Status status = client.Acquire(Client::Request(1), &lease);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_NO_FD_CHANNEL);
}

// The fd channel is another user's than the call: refused, though the secret is
// right.
TEST(FdChannelTest, SecretOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to connect as another user";
  World::Options options;
  options.access.any = true;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  int secret[2];
  int done[2];
  ASSERT_EQ(pipe2(secret, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(done, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(done[1]);
    if (setresgid(12345, 12345, 12345) != 0) _exit(1);
    if (setresuid(12345, 12345, 12345) != 0) _exit(1);
    FdClient theirs(world.dir());
    if (!theirs.Greet()) _exit(2);
    const std::string& s = theirs.welcome.session_secret();
    if (write(secret[1], s.data(), s.size()) < 0) _exit(3);
    char c;
    _exit(read(done[0], &c, 1) == 0 ? 0 : 4);
  }
  close(secret[1]);
  std::string stolen(16, '\0');
  ASSERT_EQ(read(secret[0], stolen.data(), stolen.size()), 16);
  Client client(world.dir());
  client.fds.welcome.set_session_secret(stolen);
  v1::Lease lease;
  const grpc::Status status = client.Acquire(Client::Request(1), &lease);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_NOT_ALLOWED);
  // Nor can the session be taken up by it: another one is made.
  FdClient taker(world.dir());
  ASSERT_TRUE(taker.Greet(stolen));
  EXPECT_FALSE(taker.welcome.resumed());
  close(done[0]);
  close(done[1]);
  int status_of_child = 0;
  waitpid(child, &status_of_child, 0);
  EXPECT_EQ(WEXITSTATUS(status_of_child), 0);
  close(secret[0]);
}

TEST(FdChannelTest, StrangerIsToldWhichGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to connect as another user";
  World::Options options;
  options.access.group = 54321;
  World world(options);
  // The modes would keep it out already.
  ASSERT_EQ(chmod((world.dir() + "/fd.sock").c_str(), 0666), 0);
  const std::string dir = world.dir();
  const int result = InChild([&] {
    if (setgroups(0, nullptr) != 0 || setresgid(12345, 12345, 12345) != 0 ||
        setresuid(12345, 12345, 12345) != 0) {
      return 10;
    }
    FdClient client(dir);
    const auto frame = client.Read();
    if (!frame.has_value() || !frame->message.has_goodbye()) return 11;
    const v1::ErrorDetail& error = frame->message.goodbye().error();
    return error.reason() == v1::ERROR_REASON_NOT_ALLOWED &&
                   error.hint().find("54321") != std::string::npos
               ? 0
               : 12;
  });
  EXPECT_EQ(result, 0);
  // A member may, by a supplementary group.
  const int member = InChild([&] {
    const gid_t groups[] = {1, 54321};
    if (setgroups(2, groups) != 0 || setresgid(12345, 12345, 12345) != 0 ||
        setresuid(12345, 12345, 12345) != 0) {
      return 10;
    }
    FdClient client(dir);
    return client.Greet() ? 0 : 11;
  });
  EXPECT_EQ(member, 0);
}

uint64_t Held(World& world) {
  return world.pool().Snapshot().in(ExtentState::kHeld).value();
}

TEST(FdChannelTest, SessionIsTakenUpAgain) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(client.Acquire(Client::Request(2), &lease).ok());
  const auto frame = client.fds.Read();
  client.fds.Ack(lease);
  ASSERT_TRUE(world.WaitUntil([&] { return Held(world) == 2; }));
  const std::string secret = client.fds.welcome.session_secret();
  client.fds = FdClient(UniqueFd());  // the connection breaks
  Identity admin;
  admin.admin = true;
  ASSERT_TRUE(world.WaitUntil([&] {
    return world.manager()
               .List(admin, LeaseId(), 10, LeasePhase::kOrphaned)
               .size() == 1;
  }));
  client.fds = FdClient(world.dir());
  ASSERT_TRUE(client.fds.Greet(secret));
  EXPECT_TRUE(client.fds.welcome.resumed());
  ASSERT_EQ(client.fds.welcome.leases_size(), 1);
  EXPECT_EQ(client.fds.welcome.leases(0), lease.lease_id());
  EXPECT_EQ(Held(world), 2u);
  // It works as before.
  v1::Lease more;
  EXPECT_TRUE(client.Acquire(Client::Request(1), &more).ok());
  EXPECT_TRUE(client.fds.Read().has_value());
}

// The daemon need not have noticed yet that the old connection broke.
TEST(FdChannelTest, NewerConnectionOfASessionWins) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease held;
  ASSERT_TRUE(client.Acquire(Client::Request(1), &held).ok());
  const auto frame = client.fds.Read();
  client.fds.Ack(held);
  ASSERT_TRUE(world.WaitUntil([&] { return Held(world) == 1; }));
  v1::AcquireRequest request = Client::Request(1);
  request.set_request_id("on its way");
  v1::Lease lost;
  ASSERT_TRUE(client.Acquire(request, &lost).ok());

  FdClient old = std::move(client.fds);
  client.fds = FdClient(world.dir());
  ASSERT_TRUE(client.fds.Greet(old.welcome.session_secret()));
  EXPECT_TRUE(client.fds.welcome.resumed());
  ASSERT_EQ(client.fds.welcome.leases_size(), 1);
  EXPECT_EQ(client.fds.welcome.leases(0), held.lease_id());
  EXPECT_EQ(old.ReadGoodbye(), v1::ERROR_REASON_BAD_REQUEST);
  EXPECT_EQ(world.manager().Count().sessions, 1u);
  // The retry brings descriptors.
  v1::Lease again;
  ASSERT_TRUE(client.Acquire(request, &again).ok());
  const auto grant = client.fds.Read();
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->message.grant().lease_id(), again.lease_id());
}

TEST(FdChannelTest, SessionEndsAfterTheGrace) {
  World::Options options;
  options.leases.resume_grace = absl::Milliseconds(50);
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  {
    Client client(world.dir());
    v1::Lease lease;
    ASSERT_TRUE(client.Acquire(Client::Request(2), &lease).ok());
    const auto frame = client.fds.Read();
    client.fds.Ack(lease);
    ASSERT_TRUE(world.WaitUntil([&] { return Held(world) == 2; }));
  }
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().sessions == 0;
  }));
  EXPECT_TRUE(world.WaitClean());
}

// A session is its process's. When that is dead, nobody waits for the grace,
// not even where a child of it keeps the socket open.
TEST(FdChannelTest, DeadProcessEndsItsSessionAtOnce) {
  World world;  // with a grace of 10 s
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const std::string dir = world.dir();
  const pid_t parent = fork();
  if (parent == 0) {
    FdClient client(dir);
    if (!client.Greet()) _exit(1);
    const pid_t heir = fork();
    if (heir == 0) {
      pause();
      _exit(0);
    }
    if (write(ready[1], &heir, sizeof heir) < 0) _exit(2);
    pause();
    _exit(3);
  }
  pid_t heir = 0;
  ASSERT_EQ(read(ready[0], &heir, sizeof heir),
            static_cast<ssize_t>(sizeof heir));
  EXPECT_EQ(world.manager().Count().sessions, 1u);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().sessions == 0;
  }));
  EXPECT_EQ(kill(heir, 0), 0);  // it is still there
  kill(heir, SIGKILL);
  close(ready[0]);
  close(ready[1]);
}

TEST(FdChannelTest, StopSaysGoodbye) {
  World world;
  FdClient client(world.dir());
  ASSERT_TRUE(client.Greet());
  world.service().Stop(absl::Seconds(1));
  EXPECT_EQ(client.ReadGoodbye(), v1::ERROR_REASON_DRAINING);
  EXPECT_NE(access((world.dir() + "/fd.sock").c_str(), F_OK), 0);
}

// N55: clients that connect and close at once.
TEST(FdChannelTest, N55ConnectAndClose) {
  World world;
  for (int i = 0; i < 2000; ++i) {
    FdClient client(world.dir());
    ASSERT_GE(client.fd(), 0) << i;
    if (i % 2 == 0) {
      v1::ClientFrame hello;
      hello.mutable_hello()->set_protocol_version(1);
      client.Send(hello);
    }
  }
  FdClient client(world.dir());
  EXPECT_TRUE(client.Greet());
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Count().sessions == 1;
  }));
}

}  // namespace
}  // namespace hugepool::service
