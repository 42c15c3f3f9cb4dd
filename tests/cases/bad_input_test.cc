// Input that is wrong: each a clear error with the right code and reason,
// nothing lost, and the daemon serves on.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "client/internal/errors.h"
#include "daemon/base/unique_fd.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/raw_client.h"

namespace hugepool::testing {
namespace {

constexpr uint64_t k2MBytes = 2 << 20;

class BadInputTest : public CaseTest {
 protected:
  void SetUp() override {
    if (!StartWithPages(4)) return;
    auto client = RawClient::Connect(daemon_->dir());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  void TearDown() override {
    client_.reset();
    if (daemon_ != nullptr && !IsSkipped()) {
      EXPECT_TRUE(daemon_->Alive());
      ExpectServes(4);
      ExpectAllBack();
    }
    CaseTest::TearDown();
  }
  absl::Status Try(v1::AcquireRequest request,
                   absl::Duration patience = absl::Seconds(60)) {
    if (request.request_id().empty()) {
      request.set_request_id(client_->NewRequestId());
    }
    v1::AcquireResponse response;
    return client_->calls().Call(&v1::HugePool::Stub::Acquire,
                                 client_->welcome().session_secret(), request,
                                 &response, patience);
  }
  static std::string HintOf(const absl::Status& status) {
    const auto detail = client::ErrorDetailOf(status);
    return detail.has_value() ? detail->hint() : "";
  }
  // Sends one datagram to a new fd channel; what came back, or that it was
  // closed ("closed"), or nothing for a second ("open").
  std::string SendRaw(const std::string& bytes, bool hello_first);

  std::unique_ptr<RawClient> client_;
};

TEST_F(BadInputTest, NoSegmentsOrNoSize) {
  if (client_ == nullptr) return;
  EXPECT_EQ(CodeAndReason(Try(v1::AcquireRequest())),
            "INVALID_ARGUMENT/ERROR_REASON_BAD_REQUEST");
  EXPECT_EQ(CodeAndReason(Try(AcquireOf(0, 0))),
            "INVALID_ARGUMENT/ERROR_REASON_BAD_REQUEST");
}

TEST_F(BadInputTest, SizesThatOverflow) {
  if (client_ == nullptr) return;
  for (const uint64_t bytes : {uint64_t{1} << 63, UINT64_MAX,
                               (uint64_t{1} << 63) - 1, uint64_t{1} << 62}) {
    const absl::Status status = Try(AcquireOf(bytes, k2MBytes));
    EXPECT_TRUE(absl::IsInvalidArgument(status) ||
                absl::IsFailedPrecondition(status))
        << bytes << ": " << status;
    EXPECT_NE(client::ReasonOf(status), v1::ERROR_REASON_UNSPECIFIED) << status;
  }
  // Together they overflow too.
  v1::AcquireRequest request = AcquireOf(uint64_t{1} << 62, k2MBytes);
  for (int i = 0; i < 3; ++i) {
    *request.add_segments() = request.segments(0);
  }
  const absl::Status status = Try(request);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(client::ReasonOf(status), v1::ERROR_REASON_INTERNAL) << status;
}

TEST_F(BadInputTest, UnknownPageSizeListsThoseThereAre) {
  if (client_ == nullptr) return;
  for (const uint64_t size : {uint64_t{4096}, uint64_t{32} << 20}) {
    const absl::Status status = Try(AcquireOf(k2MBytes, size));
    EXPECT_EQ(CodeAndReason(status),
              "INVALID_ARGUMENT/ERROR_REASON_UNKNOWN_PAGE_SIZE")
        << size;
    EXPECT_TRUE(absl::StrContains(HintOf(status), "2 MiB")) << HintOf(status);
  }
  // No kernel ever has these.
  for (const uint64_t size :
       {uint64_t{3} << 20, uint64_t{1}, uint64_t{1} << 63}) {
    const absl::Status status = Try(AcquireOf(k2MBytes, size));
    EXPECT_EQ(CodeAndReason(status),
              "INVALID_ARGUMENT/ERROR_REASON_UNKNOWN_PAGE_SIZE")
        << size;
    EXPECT_TRUE(absl::StrContains(HintOf(status), "2 MiB")) << HintOf(status);
  }
}

TEST_F(BadInputTest, MissingNodeListsThoseThereAre) {
  if (client_ == nullptr) return;
  for (const uint32_t node : {1u, 1000u, UINT32_MAX}) {
    v1::AcquireRequest request = AcquireOf(k2MBytes, k2MBytes);
    v1::Placement* const where =
        request.mutable_segments(0)->mutable_placement();
    where->set_mode(v1::PLACEMENT_MODE_BIND);
    where->add_nodes(node);
    const absl::Status status = Try(request);
    EXPECT_EQ(CodeAndReason(status),
              "INVALID_ARGUMENT/ERROR_REASON_NO_SUCH_NODE")
        << node;
    EXPECT_TRUE(absl::StrContains(HintOf(status), "0")) << HintOf(status);
  }
}

TEST_F(BadInputTest, BindingToNoNodeAndUnknownModes) {
  if (client_ == nullptr) return;
  v1::AcquireRequest request = AcquireOf(k2MBytes, k2MBytes);
  request.mutable_segments(0)->mutable_placement()->set_mode(
      v1::PLACEMENT_MODE_BIND);
  EXPECT_EQ(Try(request).code(), absl::StatusCode::kInvalidArgument);
  request.mutable_segments(0)->mutable_placement()->set_mode(
      static_cast<v1::PlacementMode>(99));
  EXPECT_EQ(Try(request).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BadInputTest, WhatNeverFitsIsSaidAtOnce) {
  if (client_ == nullptr) return;
  const absl::Time start = absl::Now();
  const absl::Status status =
      Try(AcquireOf(5 * k2MBytes, k2MBytes, absl::Seconds(30)));
  EXPECT_EQ(CodeAndReason(status),
            "FAILED_PRECONDITION/ERROR_REASON_NEVER_FITS")
      << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(BadInputTest, AWaitThatIsNotServedExpires) {
  if (client_ == nullptr) return;
  auto holder = NewClient();
  ASSERT_TRUE(holder->Ask(Acquire2M(4)).ok());
  const absl::Time start = absl::Now();
  EXPECT_EQ(CodeAndReason(
                Try(AcquireOf(k2MBytes, k2MBytes, absl::Milliseconds(200)))),
            "DEADLINE_EXCEEDED/ERROR_REASON_WAIT_EXPIRED");
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(190));
  const absl::Status now = Try(AcquireOf(k2MBytes, k2MBytes));
  EXPECT_EQ(CodeAndReason(now), "RESOURCE_EXHAUSTED/ERROR_REASON_POOL_SHORT");
  const auto detail = client::ErrorDetailOf(now);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->wanted_bytes(), k2MBytes);
  EXPECT_EQ(detail->available_bytes(), 0u);
  // Out of its range, and negative.
  v1::AcquireRequest request = AcquireOf(k2MBytes, k2MBytes);
  request.mutable_max_wait()->set_seconds(-5);
  EXPECT_FALSE(Try(request).ok());
  // A wait without end is one until the caller's own patience is over.
  request.mutable_max_wait()->set_seconds(INT64_MAX);
  EXPECT_FALSE(Try(request, absl::Milliseconds(300)).ok());
  EXPECT_TRUE(holder->Ask(Line("release")).ok());
}

TEST_F(BadInputTest, CallsWithoutASession) {
  if (client_ == nullptr) return;
  RawCalls calls(daemon_->dir());
  v1::AcquireRequest request = AcquireOf(k2MBytes, k2MBytes);
  request.set_request_id("x");
  v1::AcquireResponse response;
  for (const std::string& secret :
       {std::string(), std::string("short"), std::string(16, 'x')}) {
    EXPECT_EQ(CodeAndReason(calls.Call(&v1::HugePool::Stub::Acquire, secret,
                                       request, &response)),
              "FAILED_PRECONDITION/ERROR_REASON_NO_FD_CHANNEL");
  }
}

TEST_F(BadInputTest, ReleaseOfWhatIsNotThere) {
  if (client_ == nullptr) return;
  for (const char* id : {"1", "no such lease", "18446744073709551616", "-1"}) {
    EXPECT_EQ(CodeAndReason(client_->Release(id)),
              "NOT_FOUND/ERROR_REASON_LEASE_GONE")
        << id;
  }
  EXPECT_EQ(client_->Release("").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BadInputTest, NamesOfLeases) {
  if (client_ == nullptr) return;
  v1::AcquireRequest request = AcquireOf(k2MBytes, k2MBytes);
  request.set_lifetime(v1::LIFETIME_NAMED);  // without a name
  EXPECT_EQ(Try(request).code(), absl::StatusCode::kInvalidArgument);
  request.set_name(std::string(100000, 'n'));
  EXPECT_EQ(Try(request).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BadInputTest, AVersionThatIsNotSpoken) {
  if (client_ == nullptr) return;
  for (const uint32_t version : {0u, 2u, UINT32_MAX}) {
    const auto other = RawClient::Connect(daemon_->dir(), version);
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(client::ReasonOf(other.status()), v1::ERROR_REASON_WRONG_VERSION)
        << other.status();
  }
}

UniqueFd ConnectTo(const std::string& path, int type) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const timeval second = {1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    fd.reset();
  }
  return fd;
}

std::string BadInputTest::SendRaw(const std::string& bytes, bool hello_first) {
  const UniqueFd fd = ConnectTo(daemon_->dir() + "/fd.sock", SOCK_SEQPACKET);
  std::vector<char> buffer(65536);
  if (hello_first) {
    v1::ClientFrame hello;
    hello.mutable_hello()->set_protocol_version(1);
    const std::string text = hello.SerializeAsString();
    send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    recv(fd.get(), buffer.data(), buffer.size(), 0);
  }
  if (send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    return "not sent";
  }
  std::string answer;
  while (true) {
    const ssize_t n = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (n < 0) return answer.empty() ? "open" : answer;
    if (n == 0) return answer.empty() ? "closed" : answer;
    v1::ServerFrame frame;
    if (frame.ParseFromArray(buffer.data(), static_cast<int>(n)) &&
        frame.has_goodbye()) {
      answer = v1::ErrorReason_Name(frame.goodbye().error().reason());
    }
  }
}

TEST_F(BadInputTest, FramesThatAreNone) {
  if (client_ == nullptr) return;
  v1::ClientFrame ack;
  ack.mutable_grant_ack()->set_lease_id("1");
  for (const bool hello_first : {false, true}) {
    for (const std::string& bytes :
         {std::string(1, '\xff'), std::string(300, '\xff'),
          std::string(60000, 'x')}) {
      EXPECT_EQ(SendRaw(bytes, hello_first), "ERROR_REASON_BAD_FRAME")
          << bytes.size() << " bytes, hello first: " << hello_first;
    }
  }
  EXPECT_EQ(SendRaw(ack.SerializeAsString(), false), "ERROR_REASON_BAD_FRAME");
  // An empty datagram reads as the end; nothing more is promised.
  EXPECT_NE(SendRaw("", true), "open");
}

TEST_F(BadInputTest, AcknowledgementsOfOthersLeases) {
  if (client_ == nullptr) return;
  auto holder = NewClient();
  const Line got = holder->Ask(Acquire2M(1).Set("noack", ""));
  ASSERT_TRUE(got.ok()) << got;
  v1::ClientFrame nack;
  nack.mutable_grant_nack()->set_lease_id(got.Get("lease"));
  nack.mutable_grant_nack()->set_generation(1);
  SendRaw(nack.SerializeAsString(), true);
  const auto status = daemon_->GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->pools(0).granted_bytes() + status->pools(0).held_bytes(),
            k2MBytes)
      << "somebody else's lease was ended";
}

TEST_F(BadInputTest, NoiseOnTheGrpcSocket) {
  if (client_ == nullptr) return;
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, '\0'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
            std::string(1000, '\xff')}) {
    const UniqueFd fd = ConnectTo(daemon_->dir() + "/grpc.sock", SOCK_STREAM);
    send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

// N55: a thousand that connect and leave at once.
TEST_F(BadInputTest, N55ConnectingAndLeaving) {
  if (client_ == nullptr) return;
  for (int i = 0; i < 1000; ++i) {
    ConnectTo(daemon_->dir() + "/grpc.sock", SOCK_STREAM);
    ConnectTo(daemon_->dir() + "/fd.sock", SOCK_SEQPACKET);
  }
}

}  // namespace
}  // namespace hugepool::testing
