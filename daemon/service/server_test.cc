// The gRPC side: who may do what, waiting, watching, stopping.
#include "daemon/service/server.h"

#include <dirent.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "daemon/service/testing/wire_client.h"
#include "daemon/service/testing/world.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "hugepool/v1/admin.grpc.pb.h"

namespace hugepool::service {
namespace {

using testing::Client;
using testing::Dial;
using testing::FdClient;
using testing::ReasonOf;
using testing::World;

// Calls without a session.
struct Plain {
  explicit Plain(const std::string& dir, const char* name = "grpc.sock")
      : channel(Dial(dir, name)),
        stub(v1::HugePool::NewStub(channel)),
        admin(v1::HugePoolAdmin::NewStub(channel)) {}

  grpc::Status Status(v1::GetStatusResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
    return stub->GetStatus(&context, {}, response);
  }
  grpc::Status Drain(bool draining) {
    grpc::ClientContext context;
    v1::DrainRequest request;
    request.set_draining(draining);
    v1::DrainResponse response;
    return admin->Drain(&context, request, &response);
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::HugePool::Stub> stub;
  std::unique_ptr<v1::HugePoolAdmin::Stub> admin;
};

size_t CountIn(const char* dir) {
  size_t n = 0;
  DIR* const d = opendir(dir);
  while (readdir(d) != nullptr) ++n;
  closedir(d);
  return n;
}

TEST(ServerTest, StatusShowsThePool) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Plain client(world.dir());
  v1::GetStatusResponse response;
  const grpc::Status status = client.Status(&response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.version(), "test");
  EXPECT_EQ(response.backend(), "shmem");
  ASSERT_EQ(response.pools_size(), 1);
  EXPECT_EQ(response.pools(0).clean_bytes(), uint64_t{16} << 20);
  EXPECT_TRUE(response.ready());
}

TEST(ServerTest, AdminServiceOnlyOnTheAdminSocket) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Plain client(world.dir());
  const grpc::Status denied = client.Drain(true);
  EXPECT_EQ(denied.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(denied), v1::ERROR_REASON_NOT_ALLOWED);

  Plain admin(world.dir(), "admin.sock");
  ASSERT_TRUE(admin.Drain(true).ok());
  Client user(world.dir());
  v1::Lease lease;
  const grpc::Status drained = user.Acquire(Client::Request(1), &lease);
  EXPECT_EQ(drained.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(drained), v1::ERROR_REASON_DRAINING);
  ASSERT_TRUE(admin.Drain(false).ok());
  EXPECT_TRUE(user.Acquire(Client::Request(1), &lease).ok());

  grpc::ClientContext config;
  v1::GetConfigResponse yaml;
  ASSERT_TRUE(admin.admin->GetConfig(&config, {}, &yaml).ok());
  EXPECT_EQ(yaml.yaml(), "pools: []\n");
  grpc::ClientContext demote;
  v1::DemoteResponse demoted;
  EXPECT_EQ(admin.admin->Demote(&demote, {}, &demoted).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ServerTest, TuningIsForAdminsAndChecked) {
  World world;
  const auto set = [&world](const char* socket, double gigabytes,
                            bool no_cap) {
    Plain admin(world.dir(), socket);
    grpc::ClientContext context;
    v1::SetTuningRequest request;
    request.set_bandwidth_gb_per_second(gigabytes);
    request.set_no_cap(no_cap);
    v1::SetTuningResponse response;
    return admin.admin->SetTuning(&context, request, &response);
  };
  EXPECT_EQ(set("grpc.sock", 2, false).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(world.bandwidth(), Bytes(0));
  EXPECT_TRUE(set("admin.sock", 2.5, false).ok());
  EXPECT_EQ(world.bandwidth(), Bytes(2'500'000'000));
  EXPECT_TRUE(set("admin.sock", 0, true).ok());
  EXPECT_EQ(world.bandwidth(), std::nullopt);
  for (const double bad : {0.0, -1.0, 1e-4, 1e10, std::nan("")}) {
    EXPECT_EQ(ReasonOf(set("admin.sock", bad, false)),
              v1::ERROR_REASON_BAD_REQUEST)
        << bad;
  }
  EXPECT_EQ(ReasonOf(set("admin.sock", 1, true)), v1::ERROR_REASON_BAD_REQUEST);
  EXPECT_EQ(world.bandwidth(), std::nullopt);
  EXPECT_EQ(world.pressure_limit(), 0) << "was not asked for";
}

TEST(ServerTest, WhatIsNotTunedStaysAndNothingIsTunedByHalves) {
  World world;
  Plain admin(world.dir(), "admin.sock");
  const auto set = [&admin](const v1::SetTuningRequest& request) {
    grpc::ClientContext context;
    v1::SetTuningResponse response;
    return admin.admin->SetTuning(&context, request, &response);
  };
  v1::SetTuningRequest request;
  request.set_pressure_limit_percent(100);
  EXPECT_TRUE(set(request).ok());
  EXPECT_EQ(world.pressure_limit(), 100);
  EXPECT_EQ(world.bandwidth(), Bytes(0));
  request.set_no_cap(true);
  request.set_pressure_limit_percent(101);
  EXPECT_EQ(ReasonOf(set(request)), v1::ERROR_REASON_BAD_REQUEST);
  request.set_pressure_limit_percent(1);
  request.set_no_pressure_limit(true);
  EXPECT_EQ(ReasonOf(set(request)), v1::ERROR_REASON_BAD_REQUEST);
  EXPECT_EQ(world.pressure_limit(), 100);
  EXPECT_EQ(world.bandwidth(), Bytes(0));
  request.clear_pressure_limit_percent();
  EXPECT_TRUE(set(request).ok());
  EXPECT_EQ(world.pressure_limit(), std::nullopt);
  EXPECT_EQ(world.bandwidth(), std::nullopt);
}

TEST(ServerTest, VerifyIsForAdminsAndKnowsItsPools) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  const auto verify = [&world](const char* socket, uint32_t node,
                               uint64_t page_size,
                               v1::VerifyResponse* response) {
    Plain admin(world.dir(), socket);
    grpc::ClientContext context;
    v1::VerifyRequest request;
    if (page_size != 0) {
      request.mutable_pool()->set_node(node);
      request.mutable_pool()->set_page_size(page_size);
    }
    return admin.admin->Verify(&context, request, response);
  };
  v1::VerifyResponse all, one, none;
  EXPECT_EQ(verify("grpc.sock", 0, 0, &none).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(verify("admin.sock", 0, 0, &all).ok());
  EXPECT_GT(all.verified_bytes(), 0u);
  EXPECT_EQ(all.stray_bytes(), 1u);
  EXPECT_TRUE(verify("admin.sock", 0, 2 << 20, &one).ok());
  EXPECT_EQ(one.verified_bytes(), all.verified_bytes());
  EXPECT_EQ(ReasonOf(verify("admin.sock", 9, 2 << 20, &none)),
            v1::ERROR_REASON_UNKNOWN_PAGE_SIZE);
}

TEST(ServerTest, AdminSeesAndReleasesButDoesNotAcquire) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client user(world.dir());
  v1::Lease lease;
  ASSERT_TRUE(user.Acquire(Client::Request(1), &lease).ok());
  auto frame = user.fds.Read();
  user.fds.Ack(lease);

  Plain admin(world.dir(), "admin.sock");
  grpc::ClientContext acquire;
  user.Prepare(&acquire);
  v1::AcquireResponse response;
  v1::AcquireRequest request = Client::Request(1);
  request.set_request_id("x");
  EXPECT_EQ(admin.stub->Acquire(&acquire, request, &response).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);

  grpc::ClientContext get;
  v1::GetLeaseRequest which;
  which.set_lease_id(lease.lease_id());
  v1::GetLeaseResponse shown;
  ASSERT_TRUE(admin.stub->GetLease(&get, which, &shown).ok());
  EXPECT_EQ(shown.lease().lease_id(), lease.lease_id());

  grpc::ClientContext release;
  v1::ReleaseRequest releasing;
  releasing.set_lease_id(lease.lease_id());
  v1::ReleaseResponse released;
  ASSERT_TRUE(admin.stub->Release(&release, releasing, &released).ok());
  EXPECT_EQ(released.released_bytes(), uint64_t{2} << 20);
}

TEST(ServerTest, StrangerIsAnsweredEveryCallWithWhy) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to connect as another user";
  World::Options options;
  options.access.group = 54321;
  World world(options);
  ASSERT_EQ(chmod((world.dir() + "/grpc.sock").c_str(), 0666), 0);
  // The connection is made by a child of another uid, which hands it back.
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  const std::string path = world.dir() + "/grpc.sock";
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(12345, 12345, 12345) != 0 ||
        setresuid(12345, 12345, 12345) != 0) {
      _exit(1);
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
                sizeof address) != 0) {
      _exit(2);
    }
    FdClient parent((UniqueFd(pair[1])));
    _exit(parent.SendBytes("x", {fd}) ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  char byte;
  iovec piece = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ASSERT_EQ(recvmsg(pair[0], &header, MSG_CMSG_CLOEXEC), 1);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
  close(pair[0]);
  close(pair[1]);

  auto channel = grpc::CreateInsecureChannelFromFd("stranger", fd);
  auto stub = v1::HugePool::NewStub(channel);
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  const grpc::Status denied = stub->GetStatus(&context, {}, &response);
  EXPECT_EQ(denied.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::ErrorDetail detail;
  ASSERT_TRUE(detail.ParseFromString(denied.error_details()));
  EXPECT_EQ(detail.reason(), v1::ERROR_REASON_NOT_ALLOWED);
  EXPECT_TRUE(absl::StrContains(detail.hint(), "54321")) << detail.hint();
}

TEST(ServerTest, HealthFollowsReadiness) {
  std::atomic<bool> ready{false};
  World::Options options;
  options.ready = [&] { return ready.load(); };
  World world(options);
  Plain client(world.dir());
  v1::GetStatusResponse response;
  ASSERT_TRUE(client.Status(&response).ok());
  EXPECT_FALSE(response.ready());
  // A call of the health service by hand: its stub is not among the headers.
  // HealthCheckResponse{status = 1 (SERVING)} is 08 01.
  const auto serving = [&] {
    grpc::GenericStub generic(client.channel);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice empty;
    auto call =
        generic.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                 grpc::ByteBuffer(&empty, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> slices;
    if (!status.ok() || !answer.Dump(&slices).ok()) return false;
    std::string bytes;
    for (const grpc::Slice& s : slices) {
      bytes.append(reinterpret_cast<const char*>(s.begin()), s.size());
    }
    return bytes == std::string("\x08\x01", 2);
  };
  EXPECT_FALSE(serving());
  ready.store(true);
  EXPECT_TRUE(world.WaitUntil(serving));
}

TEST(ServerTest, ListsByPages) {
  World::Options options;
  options.pages = 40;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  for (int i = 0; i < 25; ++i) {
    v1::Lease lease;
    ASSERT_TRUE(client.Acquire(Client::Request(1), &lease).ok());
  }
  std::vector<std::string> seen;
  v1::ListLeasesRequest request;
  request.set_page_size(10);
  int pages = 0;
  do {
    grpc::ClientContext context;
    v1::ListLeasesResponse response;
    ASSERT_TRUE(client.stub->ListLeases(&context, request, &response).ok());
    EXPECT_LE(response.leases_size(), 10);
    for (const v1::Lease& lease : response.leases()) {
      seen.push_back(lease.lease_id());
    }
    request.set_page_token(response.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));

  request.set_page_token("nonsense");
  grpc::ClientContext context;
  v1::ListLeasesResponse response;
  EXPECT_EQ(client.stub->ListLeases(&context, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

// N9: a page stays below gRPC's 4 MiB, however many extents leases have.
TEST(ServerTest, N9PagesAreBoundedInBytes) {
  World::Options options;
  options.pages = 400;
  options.leases.max_unacknowledged_fds = 1 << 20;
  options.leases.max_unacknowledged_fds_per_session = 1 << 20;
  World world(options);
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::AcquireRequest request = Client::Request(100);
  // Long labels make it large.
  for (int i = 0; i < 32; ++i) {
    (*request.mutable_labels())[std::to_string(i)] = std::string(240, 'x');
  }
  for (int i = 0; i < 4; ++i) {
    v1::Lease lease;
    ASSERT_TRUE(client.Acquire(request, &lease).ok());
    ASSERT_TRUE(client.fds.Read().has_value());
  }
  grpc::ClientContext context;
  v1::ListLeasesResponse response;
  ASSERT_TRUE(client.stub->ListLeases(&context, {}, &response).ok());
  EXPECT_EQ(response.leases_size(), 4);
  EXPECT_LT(response.ByteSizeLong(), size_t{4} << 20);
}

// N53: waiting requests hold no threads, and the daemon still answers.
TEST(ServerTest, N53FiveHundredWaitersHoldNoThreads) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  v1::Lease all;
  ASSERT_TRUE(client.Acquire(Client::Request(8), &all).ok());
  const size_t before = CountIn("/proc/self/task");

  constexpr int kWaiters = 500;
  struct Call {
    grpc::ClientContext context;
    v1::AcquireRequest request;
    v1::AcquireResponse response;
    std::promise<grpc::Status> status;
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kWaiters; ++i) {
    auto call = std::make_unique<Call>();
    client.Prepare(&call->context);
    call->request = Client::Request(1, absl::Seconds(60));
    call->request.set_request_id(client.NextRequestId());
    client.stub->async()->Acquire(
        &call->context, &call->request, &call->response,
        [c = call.get()](grpc::Status s) { c->status.set_value(s); });
    calls.push_back(std::move(call));
  }
  EXPECT_TRUE(world.WaitUntil([&] {
    return world.manager().Waits().size() == kWaiters;
  }));
  EXPECT_LT(CountIn("/proc/self/task"), before + 40);
  Plain other(world.dir());
  v1::GetStatusResponse status;
  EXPECT_TRUE(other.Status(&status).ok());
  EXPECT_EQ(status.waits_size(), kWaiters);

  world.service().Stop(absl::Seconds(5));
  for (const auto& call : calls) {
    EXPECT_EQ(call->status.get_future().get().error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
}

TEST(ServerTest, WatchTellsOfLeases) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_leases(true);
  auto reader = client.stub->Watch(&context, request);
  // The daemon sends nothing at first: a lease at a time, until one is seen.
  std::thread acquiring([&] {
    v1::Lease lease;
    EXPECT_TRUE(world.WaitUntil([&] {
      if (!client.Acquire(Client::Request(1), &lease).ok()) return true;
      (void)client.fds.Read();
      client.fds.Nack(lease);
      return false;
    }) || true);
  });
  v1::Event event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_TRUE(event.has_lease());
  EXPECT_GT(event.sequence(), 0u);
  EXPECT_GT(event.time().seconds(), 0);
  world.host().SetDraining(true);  // ends the loop above
  acquiring.join();
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// Progress goes to those who asked for pools; others get what is for all.
TEST(ServerTest, WatchTellsOfProgress) {
  World world;
  Client client(world.dir());
  for (const bool pools : {true, false}) {
    grpc::ClientContext context;
    v1::WatchRequest request;
    request.set_pools(pools);
    request.set_leases(!pools);
    auto reader = client.stub->Watch(&context, request);
    std::atomic<bool> seen{false};
    std::thread filling([&] {
      EXPECT_TRUE(world.WaitUntil([&] {
        NewsSink* const news = world.service().news();
        news->Publish(FillProgress{NodeId(0), k2M, MiB(2), MiB(16)});
        news->Publish(Warning{"for all"});
        return seen.load();
      }));
    });
    // The first may be the warning in either case: the stream began in between.
    v1::Event first, second;
    EXPECT_TRUE(reader->Read(&first));
    EXPECT_TRUE(reader->Read(&second));
    seen.store(true);
    filling.join();
    EXPECT_EQ(first.has_progress() || second.has_progress(), pools);
    context.TryCancel();
    while (reader->Read(&first)) {
    }
  }
}

// T10: neither an open stream nor one whose client never reads, nor a waiting
// request, delays the end.
TEST(ServerTest, T10StopWithOpenStreams) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  Client client(world.dir());
  grpc::ClientContext idle_context;
  auto idle = client.stub->Watch(&idle_context, {});
  grpc::ClientContext full_context;
  auto full = client.stub->Watch(&full_context, {});
  NewsSink* const news = world.service().news();
  // Much more than fits into the stream's window and the queue.
  const Warning warning{std::string(64 * 1024, 'x')};
  for (int i = 0; i < 1000; ++i) news->Publish(warning);
  v1::Lease all;
  ASSERT_TRUE(client.Acquire(Client::Request(8), &all).ok());
  grpc::Status waited;
  std::thread waiting([&] {
    v1::Lease lease;
    waited = client.Acquire(Client::Request(1, absl::Seconds(50)), &lease);
  });
  ASSERT_TRUE(world.WaitUntil([&] {
    return world.manager().Waits().size() == 1;
  }));
  const absl::Time start = absl::Now();
  world.service().Stop(absl::Seconds(10));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  waiting.join();
  EXPECT_EQ(ReasonOf(waited), v1::ERROR_REASON_DRAINING);
}

// A watcher that does not keep up is told how many events it lost.
TEST(ServerTest, SlowWatcherIsToldWhatItLost) {
  World world;
  Client client(world.dir());
  grpc::ClientContext context;
  auto reader = client.stub->Watch(&context, {});
  NewsSink* const news = world.service().news();
  v1::Event event;
  // Until the stream is there.
  std::atomic<bool> seen{false};
  std::thread poking([&] {
    EXPECT_TRUE(world.WaitUntil([&] {
      news->Publish(Warning{"hello"});
      return seen.load();
    }));
  });
  ASSERT_TRUE(reader->Read(&event));
  seen.store(true);
  poking.join();
  const std::string large(64 * 1024, 'x');
  for (int i = 0; i < 2000; ++i) news->Publish(Warning{large});
  uint64_t read = 0;
  uint64_t dropped = 0;
  std::atomic<bool> told{false};
  // What comes after the loss carries the news of it.
  std::thread poking_again([&] {
    EXPECT_TRUE(world.WaitUntil([&] {
      news->Publish(Warning{"after"});
      return told.load();
    }));
  });
  while (dropped == 0 && reader->Read(&event)) {
    if (event.has_dropped()) dropped = event.dropped().events();
    ++read;
  }
  told.store(true);
  poking_again.join();
  EXPECT_GT(dropped, 0u);
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  (void)reader->Finish();
}

// T6, with whole services: the first one serves on.
TEST(ServerTest, T6SecondServiceOnTheSameDirectory) {
  World world;
  Service::Options options;
  options.daemon_uid = geteuid();
  options.listeners.push_back({world.dir(), AccessRule(), "", false});
  ThreadExecutor executor("second");
  {
    Service second(options, {&world.domains(), &executor, Clock::Real()});
    const absl::Status status = second.Start(&world.manager(), &world.host());
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  }
  executor.Stop();
  Client client(world.dir());
  v1::GetStatusResponse response;
  EXPECT_TRUE(Plain(world.dir()).Status(&response).ok());
}

// N55, on the gRPC socket.
TEST(ServerTest, N55ConnectAndClose) {
  World world;
  const std::string path = world.dir() + "/grpc.sock";
  for (int i = 0; i < 2000; ++i) {
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof address),
              0);
  }
  v1::GetStatusResponse response;
  const grpc::Status status = Plain(world.dir()).Status(&response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// T11: out of descriptors, the daemon turns clients away, does not spin, and
// serves again when there are some.
TEST(ServerTest, T11OutOfDescriptors) {
  World world;
  ASSERT_TRUE(world.WaitClean());
  v1::GetStatusResponse response;
  Plain before(world.dir());
  ASSERT_TRUE(before.Status(&response).ok());
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  // The client shares the limit: it makes its sockets first.
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back(socket(
        AF_UNIX, (i % 2 == 0 ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC,
        0));
  }
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(clients.back().get()) + 4;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  int turned_away = 0;
  for (size_t i = 0; i < clients.size(); ++i) {
    const std::string path =
        world.dir() + (i % 2 == 0 ? "/grpc.sock" : "/fd.sock");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(connect(clients[i].get(),
                      reinterpret_cast<const sockaddr*>(&address),
                      sizeof address),
              0);
  }
  // Those in vain see their end at once.
  EXPECT_TRUE(world.WaitUntil([&] {
    for (UniqueFd& fd : clients) {
      char c;
      if (!fd.valid()) continue;
      const ssize_t n = recv(fd.get(), &c, 1, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) {
        ++turned_away;
        fd.reset();
      }
    }
    return turned_away >= 10;
  })) << turned_away;
  rusage start = {};
  rusage end = {};
  getrusage(RUSAGE_SELF, &start);
  EXPECT_TRUE(before.Status(&response).ok());  // who is in is served
  getrusage(RUSAGE_SELF, &end);
  EXPECT_LT(end.ru_utime.tv_sec - start.ru_utime.tv_sec, 2);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  clients.clear();
  EXPECT_TRUE(Plain(world.dir()).Status(&response).ok());
  Client client(world.dir());
  v1::Lease lease;
  EXPECT_TRUE(client.Acquire(Client::Request(1), &lease).ok());
}

}  // namespace
}  // namespace hugepool::service
