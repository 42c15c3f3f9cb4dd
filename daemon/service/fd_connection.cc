#include "daemon/service/fd_connection.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/service/frames.h"

namespace hugepool::service {
namespace {

absl::Status Over() {
  return absl::UnavailableError("the session's fd channel is closed");
}

absl::Status SendError(int error_number) {
  switch (error_number) {
    case ETOOMANYREFS:
      return Refuse(RefusalReason::kQuota,
                    "the kernel allows no more descriptors on their way",
                    "other clients have not received theirs: try again soon");
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return Over();
    default:
      return ErrnoToStatus(error_number, "sendmsg(fd channel)");
  }
}

}  // namespace

uint32_t FdConnection::InputEvents() { return EPOLLIN | EPOLLRDHUP; }

// Answers and other frames do not take each other's room: a burst of answers
// must not cost a grant, nor the other way round.
absl::Status FdConnection::HasRoom(const OutFrame& frame) const {
  const size_t others = queue_.size() - queued_answers_;
  const bool room =
      frame.answer
          ? queued_answer_bytes_ + frame.bytes.size() <=
                limits_.max_queued_answer_bytes
          : others < limits_.max_queued_frames &&
                queued_fds_ + frame.fds.size() <= limits_.max_queued_fds;
  if (room) return absl::OkStatus();
  return Refuse(RefusalReason::kQuota,
                absl::StrCat("the session has ", queue_.size(),
                             " frames with ", queued_fds_,
                             " descriptors to receive already"),
                "read from the fd channel");
}

void FdConnection::PushedLocked(const OutFrame& frame) {
  queued_fds_ += frame.fds.size();
  if (!frame.answer) return;
  ++queued_answers_;
  queued_answer_bytes_ += frame.bytes.size();
}

void FdConnection::PoppedLocked(const OutFrame& frame) {
  queued_fds_ -= frame.fds.size();
  if (!frame.answer) return;
  --queued_answers_;
  queued_answer_bytes_ -= frame.bytes.size();
}

absl::Status FdConnection::Send(OutFrame frame) {
  uint64_t number = 0;
  {
    MutexLock lock(&mu_);
    if (closed_) return Over();
    if (absl::Status room = HasRoom(frame); !room.ok()) return room;
    number = next_number_++;
    PushedLocked(frame);
    queue_.push_back({std::move(frame), number});
    if (sending_ || blocked_) return absl::OkStatus();
    sending_ = true;
  }
  return Drain(number);
}

void FdConnection::QueueFirst(OutFrame frame) {
  MutexLock lock(&mu_);
  HP_CHECK(next_number_ == 1, "nothing was sent before the first frame");
  queue_.push_back({std::move(frame), next_number_++});
  sending_ = true;  // this is the sender already
}

// The next frame for the sender; false: none, and there is no sender any more.
bool FdConnection::Next(Queued* out) {
  MutexLock lock(&mu_);
  if (closed_ || queue_.empty()) {
    sending_ = false;
    return false;
  }
  *out = std::move(queue_.front());
  queue_.pop_front();
  PoppedLocked(out->frame);
  return true;
}

// Puts the frame back for when the socket is writable.
void FdConnection::Block(Queued again) {
  {
    MutexLock lock(&mu_);
    sending_ = false;
    if (closed_) return;
    blocked_ = true;
    PushedLocked(again.frame);
    queue_.push_front(std::move(again));
  }
  // Level-triggered: if it became writable meanwhile, epoll says so at once.
  Watch(/*writable=*/true);
}

// The caller is the sender. Sends what is queued; the status is that of the
// frame numbered `own`, where this call sent it.
absl::Status FdConnection::Drain(uint64_t own) {
  absl::Status status;
  Queued item;
  while (Next(&item)) {
    const int error_number =
        SendFrame(socket_.get(), item.frame.bytes, item.frame.fds);
    if (error_number == EAGAIN) {
      Block(std::move(item));
      return status;
    }
    if (error_number != 0) {
      const absl::Status failed = SendError(error_number);
      if (item.number == own) {
        status = failed;
      } else if (item.frame.lease.valid()) {
        lost_(item.frame);
      }
    }
    item.frame.fds.clear();
  }
  return status;
}

void FdConnection::Writable() {
  // First this, then sending: an EAGAIN in Drain watches again.
  Watch(/*writable=*/false);
  {
    MutexLock lock(&mu_);
    if (!blocked_) return;
    blocked_ = false;
    sending_ = true;
  }
  Drain(0).IgnoreError();
}

void FdConnection::Close() {
  std::deque<Queued> dropped;  // closed after the lock is released
  MutexLock lock(&mu_);
  closed_ = true;
  dropped.swap(queue_);
  queued_fds_ = 0;
  queued_answers_ = 0;
  queued_answer_bytes_ = 0;
}

void FdConnection::Hangup() {
  // The number is ours as long as this lives. EPOLLRDHUP follows.
  (void)shutdown(socket_.get(), SHUT_RDWR);
}

void FdConnection::Watch(bool writable) {
  epoll_event event = {};
  event.events = InputEvents() | (writable ? uint32_t{EPOLLOUT} : 0);
  event.data.u64 = epoll_data_;
  // ENOENT where the connection was taken out already.
  (void)epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.get(), &event);
}

}  // namespace hugepool::service
