// One client's connection of the fd channel: its socket and what is to be sent.
#ifndef HUGEPOOL_DAEMON_SERVICE_FD_CONNECTION_H_
#define HUGEPOOL_DAEMON_SERVICE_FD_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/lease/types.h"
#include "daemon/service/reaper.h"

namespace hugepool::service {

// A frame to be sent. Those of grants name what they belong to.
struct OutFrame {
  std::string bytes;
  std::vector<UniqueFd> fds;
  bool answer = false;  // to a call: has a limit of its own
  SessionId session;
  LeaseId lease;
  uint64_t generation = 0;
};

// Sends frames in order, from any thread, without ever waiting and without a
// lock across sendmsg.
//
// Who enqueues a frame while nobody sends becomes the sender: it takes frames
// from the queue, one at a time, until the queue is empty. Others just enqueue
// meanwhile. When the socket takes no more (EAGAIN), the connection is blocked:
// the queue waits for the epoll thread, which calls Writable(). So at any time
// at most one thread is inside sendmsg, and frames keep their order.
//
// The socket is closed with the last reference to the connection, by the
// reaper; so no thread ever sends to a number that has become another file.
class FdConnection {
 public:
  struct Limits {
    size_t max_queued_frames = 64;
    size_t max_queued_fds = 1024;
    // A client that has many calls under way can get many answers at once.
    size_t max_queued_answer_bytes = 1 << 20;
  };
  // A frame of a grant that was accepted by Send() and could not be sent after
  // all. Called without locks, by any sending thread.
  using Lost = std::function<void(const OutFrame& frame)>;

  // `epoll` watches the socket with `epoll_data` for input already; this adds
  // and removes EPOLLOUT. `epoll` and `reaper` must outlive the connection.
  FdConnection(UniqueFd socket, int epoll, uint64_t epoll_data,
               const Limits& limits, Reaper* reaper, Lost lost)
      : socket_(std::move(socket)),
        epoll_(epoll),
        epoll_data_(epoll_data),
        limits_(limits),
        reaper_(reaper),
        lost_(std::move(lost)) {}
  ~FdConnection() { reaper_->Close(std::move(socket_)); }
  FdConnection(const FdConnection&) = delete;
  FdConnection& operator=(const FdConnection&) = delete;

  int fd() const { return socket_.get(); }

  // Thread-safe. Sends the frame or enqueues it. UNAVAILABLE: the connection is
  // over. RESOURCE_EXHAUSTED: the queue is full, since its client does not read;
  // or the kernel refuses more descriptors on their way (ETOOMANYREFS).
  absl::Status Send(OutFrame frame) HP_EXCLUDES(mu_);

  // The first frame of a connection, sent by SendFirst(): whatever others send
  // between the two calls comes after it. So others may learn of the connection
  // before its client does, and no frame precedes this one.
  void QueueFirst(OutFrame frame) HP_EXCLUDES(mu_);
  void SendFirst() { Drain(0).IgnoreError(); }

  // The socket takes frames again. Epoll thread only.
  void Writable() HP_EXCLUDES(mu_);

  // Nothing is sent any more; what is queued is dropped. Thread-safe.
  void Close() HP_EXCLUDES(mu_);
  // Ends the connection as if its client had. Thread-safe; the epoll thread
  // hears of it.
  void Hangup();

  // Events to watch a connection for.
  static uint32_t InputEvents();

 private:
  struct Queued {
    OutFrame frame;
    uint64_t number = 0;
  };
  absl::Status HasRoom(const OutFrame& frame) const HP_REQUIRES(mu_);
  void PushedLocked(const OutFrame& frame) HP_REQUIRES(mu_);
  void PoppedLocked(const OutFrame& frame) HP_REQUIRES(mu_);
  absl::Status Drain(uint64_t own) HP_EXCLUDES(mu_);
  bool Next(Queued* out) HP_EXCLUDES(mu_);
  void Block(Queued again) HP_EXCLUDES(mu_);
  void Watch(bool writable);

  UniqueFd socket_;
  const int epoll_;
  const uint64_t epoll_data_;
  const Limits limits_;
  Reaper* const reaper_;
  const Lost lost_;

  Mutex mu_;
  std::deque<Queued> queue_ HP_GUARDED_BY(mu_);
  size_t queued_fds_ HP_GUARDED_BY(mu_) = 0;
  size_t queued_answers_ HP_GUARDED_BY(mu_) = 0;
  size_t queued_answer_bytes_ HP_GUARDED_BY(mu_) = 0;
  uint64_t next_number_ HP_GUARDED_BY(mu_) = 1;
  bool sending_ HP_GUARDED_BY(mu_) = false;  // some thread is the sender
  bool blocked_ HP_GUARDED_BY(mu_) = false;  // until Writable()
  bool closed_ HP_GUARDED_BY(mu_) = false;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_FD_CONNECTION_H_
