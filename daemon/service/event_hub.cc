#include "daemon/service/event_hub.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/refusal.h"
#include "daemon/service/watch_call.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

// A Watch that was refused at once.
class RefusedWatch : public grpc::ServerWriteReactor<v1::Event> {
 public:
  explicit RefusedWatch(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

EventHub::~EventHub() {
  HP_CHECK(watchers() == 0, "the server is shut down before its hub dies");
}

void EventHub::Publish(const News& news) {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const auto shared = std::make_shared<const News>(news);
  const absl::Time now = clock_->WallNow();
  {
    MutexLock lock(&mu_);
    ++sequence_;
    for (const auto& call : calls_) call->Offer(shared, sequence_, now);
  }
  if (!flush_posted_.exchange(true, std::memory_order_acq_rel)) {
    executor_->Post([this] { Flush(); });
  }
}

void EventHub::Flush() {
  flush_posted_.exchange(false, std::memory_order_acq_rel);
  std::vector<std::shared_ptr<WatchCall>> calls;
  {
    MutexLock lock(&mu_);
    calls = calls_;
  }
  for (const auto& call : calls) call->Pump();
}

grpc::ServerWriteReactor<v1::Event>* EventHub::Watch(
    grpc::CallbackServerContext* context, const EventFilter& filter) {
  absl::Status refused;
  {
    MutexLock lock(&mu_);
    if (closed_) {
      refused = Refuse(RefusalReason::kDraining, "the daemon is stopping",
                       "try again when it has been restarted");
    } else if (calls_.size() >= kMaxWatchers) {
      refused = Refuse(RefusalReason::kQuota,
                       absl::StrCat("there are ", calls_.size(),
                                    " watchers already, as many as allowed"),
                       "end one of them");
    } else {
      auto call = std::make_shared<WatchCall>(this, context, filter);
      calls_.push_back(call);
      count_.store(calls_.size(), std::memory_order_relaxed);
      return call.get();
    }
  }
  return Refused(refused);
}

grpc::ServerWriteReactor<v1::Event>* EventHub::Refused(
    const absl::Status& why) {
  return new RefusedWatch(why);
}

void EventHub::Close() {
  std::vector<std::shared_ptr<WatchCall>> calls;
  {
    MutexLock lock(&mu_);
    closed_ = true;
    calls = calls_;
  }
  const absl::Status why =
      Refuse(RefusalReason::kDraining, "the daemon is stopping",
             "watch again when it has been restarted");
  for (const auto& call : calls) call->Close(why);
}

void EventHub::Remove(WatchCall* call) {
  std::shared_ptr<WatchCall> last;  // dies outside the lock
  MutexLock lock(&mu_);
  auto it = std::find_if(calls_.begin(), calls_.end(),
                         [&](const auto& c) { return c.get() == call; });
  if (it == calls_.end()) return;
  last = std::move(*it);
  calls_.erase(it);
  count_.store(calls_.size(), std::memory_order_relaxed);
}

size_t EventHub::watchers() const {
  MutexLock lock(&mu_);
  return calls_.size();
}

}  // namespace hugepool::service
