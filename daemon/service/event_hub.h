// Hands news to whoever watches.
#ifndef HUGEPOOL_DAEMON_SERVICE_EVENT_HUB_H_
#define HUGEPOOL_DAEMON_SERVICE_EVENT_HUB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/base/mutex.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/events.h"
#include "daemon/lease/types.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "hugepool/v1/hugepool.pb.h"

namespace hugepool::service {

// What a watcher is sent.
struct EventFilter {
  bool leases = true;
  bool pools = true;
  bool waits = true;
  bool all_domains = false;  // an admin's; else the watcher's own only
  DomainId domain;
};

class WatchCall;

// Thread-safe. Publish() costs one atomic load where nobody watches; else it
// appends to bounded queues, and the executor writes to the streams, so that
// the publisher never enters gRPC. A watcher that does not keep up loses the
// newest events and is sent their number before the next one that it gets.
class EventHub : public NewsSink {
 public:
  static constexpr size_t kMaxQueued = 256;
  static constexpr size_t kMaxWatchers = 64;

  // All three must outlive the last watcher, that is, the server's shutdown.
  EventHub(Domains* domains, Executor* executor, const Clock* clock)
      : domains_(domains), executor_(executor), clock_(clock) {}
  ~EventHub() override;

  void Publish(const News& news) override;

  // The reactor of one Watch call. It lives until gRPC is done with it.
  grpc::ServerWriteReactor<v1::Event>* Watch(
      grpc::CallbackServerContext* context, const EventFilter& filter);

  // The reactor of a Watch call that is refused at once. It deletes itself.
  static grpc::ServerWriteReactor<v1::Event>* Refused(const absl::Status& why);

  // Ends all streams, also those whose clients do not read, and refuses new
  // ones. Does not wait.
  void Close();

  size_t watchers() const;

 private:
  friend class WatchCall;
  void Remove(WatchCall* call);
  void Flush();

  Domains* const domains_;
  Executor* const executor_;
  const Clock* const clock_;

  // relaxed: a watcher that is being added may miss what is published beside.
  std::atomic<size_t> count_{0};
  // One Flush() is posted at a time. acq_rel by exchange with itself: a
  // publisher that sees true knows that a flush is still to look at its event.
  std::atomic<bool> flush_posted_{false};

  mutable Mutex mu_;
  std::vector<std::shared_ptr<WatchCall>> calls_ HP_GUARDED_BY(mu_);
  uint64_t sequence_ HP_GUARDED_BY(mu_) = 0;
  bool closed_ HP_GUARDED_BY(mu_) = false;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_EVENT_HUB_H_
