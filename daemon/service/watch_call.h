// One Watch stream. Internal to EventHub.
#ifndef HUGEPOOL_DAEMON_SERVICE_WATCH_CALL_H_
#define HUGEPOOL_DAEMON_SERVICE_WATCH_CALL_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/service/event_hub.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace hugepool::service {

// Thread-safe. The hub holds it until gRPC is done with it, and whoever pumps or
// closes it holds it meanwhile.
//
// gRPC's context and stream are valid until Finish() was called. Who may call
// into gRPC is decided under mu_, the call is made after it is released:
//   idle -> writing      by Pump(); then only OnWriteDone() moves on
//   idle -> finished     by Close() and OnCancel()
//   writing -> finished  by OnWriteDone(); where Close() is cancelling the
//                        stream at that time, by Close() once it has done so
class WatchCall : public grpc::ServerWriteReactor<v1::Event> {
 public:
  WatchCall(EventHub* hub, grpc::CallbackServerContext* context,
            const EventFilter& filter)
      : hub_(hub), context_(context), filter_(filter) {}

  // Queues the event, if it is for this watcher.
  void Offer(const std::shared_ptr<const News>& news, uint64_t sequence,
             absl::Time time) HP_EXCLUDES(mu_);
  // Writes the next event, if there is one and no write is under way.
  void Pump() HP_EXCLUDES(mu_);
  // Ends the stream with `why`, whatever its client does.
  void Close(const absl::Status& why) HP_EXCLUDES(mu_);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class State { kIdle, kWriting, kFinished };
  struct Queued {
    std::shared_ptr<const News> news;
    uint64_t sequence = 0;
    absl::Time time;
    uint64_t dropped_before = 0;
  };
  bool Wants(const News& news) const;

  EventHub* const hub_;
  grpc::CallbackServerContext* const context_;
  const EventFilter filter_;
  // Being written. Touched by whoever made the state kWriting, then by gRPC.
  v1::Event out_;

  Mutex mu_;
  State state_ HP_GUARDED_BY(mu_) = State::kIdle;
  std::deque<Queued> queue_ HP_GUARDED_BY(mu_);
  uint64_t dropped_ HP_GUARDED_BY(mu_) = 0;  // since the last queued one
  bool ending_ HP_GUARDED_BY(mu_) = false;
  absl::Status why_ HP_GUARDED_BY(mu_);
  bool cancelling_ HP_GUARDED_BY(mu_) = false;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_WATCH_CALL_H_
