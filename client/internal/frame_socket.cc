#include "client/internal/frame_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/internal/unix_socket.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

constexpr size_t kMaxFrameBytes = 64 * 1024;

// Takes every descriptor out of `header`, so that none can leak.
std::vector<UniqueFd> TakeFds(msghdr* header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr;
       c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    fds.reserve(fds.size() + n);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

FrameSocket::FrameSocket(UniqueFd fd)
    : fd_(std::move(fd)),
      buffer_(std::make_unique_for_overwrite<char[]>(kMaxFrameBytes)) {}

absl::StatusOr<FrameSocket> FrameSocket::Connect(const std::string& path) {
  HP_ASSIGN_OR_RETURN(UniqueFd fd, ConnectSeqPacket(path));
  return FrameSocket(std::move(fd));
}

absl::Status FrameSocket::Send(const v1::ClientFrame& frame,
                               absl::Span<const int> fds) const {
  std::string bytes = frame.SerializeAsString();
  iovec piece = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerFrame * sizeof(int))];
  if (!fds.empty()) {
    std::memset(control, 0, sizeof control);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  const int error_number = errno;
  if (error_number == EPIPE || error_number == ECONNRESET ||
      error_number == EAGAIN) {
    return absl::UnavailableError(absl::StrCat(
        "the fd channel broke (send: ", strerrorname_np(error_number), ")"));
  }
  return ErrnoToStatus(error_number, "sendmsg(fd channel)");
}

absl::Status FrameSocket::WaitReadable(absl::Time deadline) const {
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::NotFoundError("no frame came in time");
    }
    const timespec limit = absl::ToTimespec(std::min(left, absl::Hours(1)));
    pollfd p = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int n = ppoll(&p, 1, &limit, nullptr);
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno != EINTR) {
      const int error_number = errno;
      return ErrnoToStatus(error_number, "poll(fd channel)");
    }
  }
}

absl::StatusOr<ServerFrameAndFds> FrameSocket::Read(absl::Time deadline) {
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerFrame * sizeof(int))];
    iovec piece = {.iov_base = buffer_.get(), .iov_len = kMaxFrameBytes};
    msghdr header = {};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n =
        recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const int error_number = errno;
    if (n > 0) {
      ServerFrameAndFds frame;
      frame.fds = TakeFds(&header);
      frame.fds_lost = (header.msg_flags & MSG_CTRUNC) != 0;
      if ((header.msg_flags & MSG_TRUNC) != 0 ||
          !frame.message.ParseFromArray(buffer_.get(), static_cast<int>(n))) {
        return absl::InternalError(
            "the daemon sent a frame that this library cannot read");
      }
      return frame;
    }
    if (n == 0) {
      return absl::UnavailableError("the daemon closed the fd channel");
    }
    if (error_number == EAGAIN || error_number == EWOULDBLOCK) {
      HP_RETURN_IF_ERROR(WaitReadable(deadline));
    } else if (error_number == ECONNRESET) {
      return absl::UnavailableError("the fd channel broke (ECONNRESET)");
    } else if (error_number != EINTR) {
      return ErrnoToStatus(error_number, "recvmsg(fd channel)");
    }
  }
}

FrameSocket::State FrameSocket::Look() const {
  pollfd p = {.fd = fd_.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
  if (poll(&p, 1, 0) <= 0) return {};
  return {
      .readable = true,
      .hung_up = (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0};
}

}  // namespace hugepool::client
