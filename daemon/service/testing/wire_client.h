// A client that speaks the bare protocol, right or wrong.
#ifndef HUGEPOOL_DAEMON_SERVICE_TESTING_WIRE_CLIENT_H_
#define HUGEPOOL_DAEMON_SERVICE_TESTING_WIRE_CLIENT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"
#include "grpcpp/client_context.h"
#include "hugepool/v1/admin.grpc.pb.h"
#include "hugepool/v1/fdchannel.pb.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::service::testing {

// The fd channel's client end.
class FdClient {
 public:
  struct Frame {
    v1::ServerFrame message;
    std::vector<UniqueFd> fds;
    bool end = false;  // the daemon closed
  };
  explicit FdClient(const std::string& dir);
  // A connected socket.
  explicit FdClient(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool SendBytes(std::string_view bytes, const std::vector<int>& fds = {});
  bool Send(const v1::ClientFrame& frame, const std::vector<int>& fds = {}) {
    return SendBytes(frame.SerializeAsString(), fds);
  }
  // nullopt: nothing came in time.
  std::optional<Frame> Read(absl::Duration timeout = absl::Seconds(10));
  // Reads until a Goodbye, and gives its reason; UNSPECIFIED where there is
  // none.
  v1::ErrorReason ReadGoodbye();
  // Says Hello and keeps the Welcome; false where none came.
  bool Greet(const std::string& resume_secret = "");
  void Ack(const v1::Lease& lease);
  void Nack(const v1::Lease& lease);
  // Makes a call; its id.
  uint64_t Call(v1::Call call);
  // Reads until the whole answer is there; code -1 where none came. Other
  // frames go to `others`.
  v1::Answer ReadAnswer(uint64_t call);

  v1::Welcome welcome;
  std::vector<Frame> others;

 private:
  UniqueFd socket_;
  uint64_t last_call_ = 0;
};

// A gRPC connection of its own to DIR/NAME.
std::shared_ptr<grpc::Channel> Dial(const std::string& dir,
                                    const char* name = "grpc.sock");

// A client with a session.
class Client {
 public:
  explicit Client(const std::string& dir);

  // One segment of `pages` pages of 2 MiB.
  static v1::AcquireRequest Request(uint64_t pages,
                                    absl::Duration wait = absl::ZeroDuration());
  grpc::Status Acquire(v1::AcquireRequest request, v1::Lease* lease);
  grpc::Status Release(const std::string& lease_id);
  void Prepare(grpc::ClientContext* context) const;
  std::string NextRequestId();

  FdClient fds;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::HugePool::Stub> stub;

 private:
  int next_request_ = 0;
};

// The daemon's reason for a failed call.
v1::ErrorReason ReasonOf(const grpc::Status& status);

}  // namespace hugepool::service::testing

#endif  // HUGEPOOL_DAEMON_SERVICE_TESTING_WIRE_CLIENT_H_
