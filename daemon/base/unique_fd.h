// Owns a file descriptor.
#ifndef HUGEPOOL_DAEMON_BASE_UNIQUE_FD_H_
#define HUGEPOOL_DAEMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace hugepool {

// Move-only owner of a descriptor; closes it at the end of its life. Not
// thread-safe. close(2) is not retried on EINTR: on Linux the descriptor is
// gone then.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& o) noexcept : fd_(o.release()) {}
  UniqueFd& operator=(UniqueFd&& o) noexcept {
    if (this != &o) reset(o.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives up ownership.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_UNIQUE_FD_H_
