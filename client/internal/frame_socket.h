// Frames over a SOCK_SEQPACKET socket: one protobuf and its descriptors a
// datagram.
#ifndef HUGEPOOL_CLIENT_INTERNAL_FRAME_SOCKET_H_
#define HUGEPOOL_CLIENT_INTERNAL_FRAME_SOCKET_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/base/unique_fd.h"
#include "hugepool/v1/fdchannel.pb.h"

namespace hugepool::client {

// SCM_MAX_FD: the kernel refuses more descriptors in one datagram.
inline constexpr size_t kMaxFdsPerFrame = 253;

struct ServerFrameAndFds {
  v1::ServerFrame message;
  std::vector<UniqueFd> fds;  // close-on-exec
  // MSG_CTRUNC: not all descriptors that were sent could be received.
  bool fds_lost = false;
};

// Any number of threads may call Send and Look; one at a time Read.
class FrameSocket {
 public:
  struct State {
    bool readable = false;  // Read would not wait
    bool hung_up = false;   // the daemon has closed its end
  };

  // Errors as for ConnectSeqPacket.
  static absl::StatusOr<FrameSocket> Connect(const std::string& path);
  FrameSocket(FrameSocket&&) = default;

  // Waits up to 5 s where the daemon does not read. UNAVAILABLE: the channel
  // broke.
  absl::Status Send(const v1::ClientFrame& frame,
                    absl::Span<const int> fds = {}) const;
  // Reads one frame. Every descriptor that came is in it or closed. NOT_FOUND:
  // nothing came by `deadline` (one in the past: do not wait). UNAVAILABLE:
  // the channel broke. INTERNAL: not a frame.
  absl::StatusOr<ServerFrameAndFds> Read(absl::Time deadline);
  int fd() const { return fd_.get(); }
  // One poll(2).
  State Look() const;

 private:
  explicit FrameSocket(UniqueFd fd);
  absl::Status WaitReadable(absl::Time deadline) const;

  UniqueFd fd_;
  std::unique_ptr<char[]> buffer_;  // of the reader
};

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_FRAME_SOCKET_H_
