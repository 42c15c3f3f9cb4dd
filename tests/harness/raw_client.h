// The protocol spoken by hand: each step of a lease on its own, and frames that
// the client library would never send.
#ifndef HUGEPOOL_TESTS_HARNESS_RAW_CLIENT_H_
#define HUGEPOOL_TESTS_HARNESS_RAW_CLIENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/internal/frame_socket.h"
#include "daemon/base/unique_fd.h"
#include "hugepool/v1/admin.grpc.pb.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::testing {

// Calls without a session: status, lists, and requests that should fail.
class RawCalls {
 public:
  explicit RawCalls(const std::string& dir);

  v1::HugePool::Stub* stub() { return stub_.get(); }
  const std::string& path() const { return path_; }
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  // All leases that the caller may see.
  absl::StatusOr<std::vector<v1::Lease>> ListLeases();

  // Calls `method` with `secret` as the session, if not empty. Failures carry
  // the daemon's ErrorDetail (client/internal/errors.h).
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const std::string& secret,
                    const Request& request, Response* response,
                    absl::Duration timeout = absl::Seconds(60)) {
    grpc::ClientContext context;
    Prepare(&context, secret, timeout);
    return Finish((stub_.get()->*method)(&context, request, response));
  }

 private:
  static void Prepare(grpc::ClientContext* context, const std::string& secret,
                      absl::Duration timeout);
  absl::Status Finish(const grpc::Status& status) const;

  std::string path_;
  std::unique_ptr<v1::HugePool::Stub> stub_;
};

// The same over admin.sock.
absl::StatusOr<std::vector<v1::Lease>> ListAllLeases(
    const std::string& admin_dir);
absl::Status RevokeLease(const std::string& admin_dir,
                         const std::string& lease_id, bool kill);

// What came on the fd channel for one request.
struct RawGrant {
  std::string lease_id;
  uint64_t generation = 0;
  std::vector<UniqueFd> fds;
};

// A session. Not thread-safe.
class RawClient {
 public:
  // Says Hello with `version` and waits for the Welcome. A Goodbye is an error
  // with its reason.
  static absl::StatusOr<std::unique_ptr<RawClient>> Connect(
      const std::string& dir, uint32_t version = 1,
      const std::string& resume_secret = "");

  const v1::Welcome& welcome() const { return welcome_; }
  client::FrameSocket& frames() { return *frames_; }
  RawCalls& calls() { return calls_; }
  // Make the calls below over the fd channel instead of gRPC.
  void set_over_fd(bool over_fd) { over_fd_ = over_fd; }
  // Closes the fd channel, and what came on it.
  void HangUp() {
    frames_.reset();
    kept_.clear();
  }

  absl::Status Acquire(const v1::AcquireRequest& request,
                       v1::AcquireResponse* response);
  absl::Status Attach(const v1::AttachRequest& request,
                      v1::AttachResponse* response);
  absl::Status Release(const std::string& lease_id);
  // A part of a segment.
  absl::Status ReleasePart(const std::string& lease_id, uint32_t segment,
                           uint64_t offset, uint64_t size);
  // Reads frames until all of the request's have come.
  absl::StatusOr<RawGrant> Collect(const std::string& request_id,
                                   absl::Duration timeout);
  absl::Status Ack(const RawGrant& grant);
  std::string NewRequestId();

 private:
  absl::Status SendRelease(v1::ReleaseRequest request);
  RawClient(client::FrameSocket frames, const std::string& dir);
  // Sends the call and reads until its answer is whole; grants that come before
  // are kept for Collect().
  absl::StatusOr<v1::Answer> Ask(v1::Call call);
  absl::StatusOr<client::ServerFrameAndFds> NextFrame(absl::Time deadline);

  std::optional<client::FrameSocket> frames_;
  RawCalls calls_;
  v1::Welcome welcome_;
  uint64_t next_request_ = 1;
  bool over_fd_ = false;
  uint64_t last_call_ = 0;
  std::deque<client::ServerFrameAndFds> kept_;
};

// One segment of `bytes`; page_size 0: any.
v1::AcquireRequest AcquireOf(uint64_t bytes, uint64_t page_size,
                             absl::Duration wait = absl::ZeroDuration());

// "RESOURCE_EXHAUSTED/ERROR_REASON_POOL_SHORT": code and reason for matching.
std::string CodeAndReason(const absl::Status& status);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_RAW_CLIENT_H_
