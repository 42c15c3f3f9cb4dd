// One datagram of the fd channel, with its descriptors.
#ifndef HUGEPOOL_DAEMON_SERVICE_FRAMES_H_
#define HUGEPOOL_DAEMON_SERVICE_FRAMES_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "daemon/base/unique_fd.h"

namespace hugepool::service {

// SCM_MAX_FD of the kernel.
inline constexpr size_t kMaxFdsPerFrame = 253;
inline constexpr size_t kMaxFrameBytes = 64 * 1024;

// Sends without waiting: 0, or the errno of sendmsg. At most kMaxFdsPerFrame
// descriptors, which stay the caller's.
int SendFrame(int socket, std::string_view bytes, absl::Span<const UniqueFd> fds);

// Where frames are received. Not thread-safe.
class FrameReader {
 public:
  enum class Result {
    kFrame,    // `bytes` and `fds` are set
    kTooLong,  // a frame of more than kMaxFrameBytes; `fds` are set
    kNone,     // nothing there now
    kEnd,      // the peer closed, or sent an empty frame, or the socket broke
  };
  struct Frame {
    Result result = Result::kNone;
    std::string_view bytes;  // until the next Read
    std::vector<UniqueFd> fds;
  };

  FrameReader();
  // Does not wait.
  Frame Read(int socket);

 private:
  const std::unique_ptr<char[]> buffer_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_FRAMES_H_
