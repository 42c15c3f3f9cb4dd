#include "daemon/service/frames.h"

#include <errno.h>
#include <sys/socket.h>

#include <cstring>

#include "daemon/base/check.h"

namespace hugepool::service {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(kMaxFdsPerFrame * sizeof(int));

// Takes every descriptor out of `header`, so that none can leak.
std::vector<UniqueFd> TakeFds(msghdr* header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr;
       c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

int SendFrame(int socket, std::string_view bytes,
              absl::Span<const UniqueFd> fds) {
  HP_CHECK(!bytes.empty() && fds.size() <= kMaxFdsPerFrame,
           "a frame has a byte, and no more descriptors than the kernel takes");
  iovec piece = {.iov_base = const_cast<char*>(bytes.data()),
                 .iov_len = bytes.size()};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[kControlBytes];
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    std::memset(control, 0, header.msg_controllen);
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    for (size_t i = 0; i < fds.size(); ++i) {
      const int fd = fds[i].get();
      std::memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

FrameReader::FrameReader()
    : buffer_(std::make_unique_for_overwrite<char[]>(kMaxFrameBytes)) {}

FrameReader::Frame FrameReader::Read(int socket) {
  // Room for all descriptors that one message can carry: the kernel would
  // close those that do not fit, on this thread.
  alignas(cmsghdr) char control[kControlBytes];
  iovec piece = {.iov_base = buffer_.get(), .iov_len = kMaxFrameBytes};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  Frame frame;
  if (n < 0) {
    frame.result = errno == EAGAIN ? Result::kNone : Result::kEnd;
    return frame;
  }
  frame.fds = TakeFds(&header);
  frame.bytes = std::string_view(buffer_.get(), static_cast<size_t>(n));
  frame.result = n == 0                                  ? Result::kEnd
                 : (header.msg_flags & MSG_TRUNC) != 0 ? Result::kTooLong
                                                         : Result::kFrame;
  return frame;
}

}  // namespace hugepool::service
