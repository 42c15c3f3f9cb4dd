#include "daemon/service/watch_call.h"

#include <utility>
#include <variant>

#include "daemon/service/wire.h"

namespace hugepool::service {

bool WatchCall::Wants(const News& news) const {
  const auto mine = [this](DomainId domain) {
    return filter_.all_domains || domain == filter_.domain;
  };
  if (const auto* lease = std::get_if<LeaseNews>(&news)) {
    return filter_.leases && mine(lease->domain);
  }
  if (const auto* wait = std::get_if<WaitNews>(&news)) {
    return filter_.waits && mine(wait->domain);
  }
  if (std::holds_alternative<PoolChanged>(news) ||
      std::holds_alternative<FillProgress>(news)) {
    return filter_.pools;
  }
  return true;
}

void WatchCall::Offer(const std::shared_ptr<const News>& news,
                      uint64_t sequence, absl::Time time) {
  if (!Wants(*news)) return;
  MutexLock lock(&mu_);
  if (state_ == State::kFinished || ending_) return;
  if (queue_.size() >= EventHub::kMaxQueued) {
    ++dropped_;
    return;
  }
  queue_.push_back({news, sequence, time, std::exchange(dropped_, 0)});
}

void WatchCall::Pump() {
  Queued next;
  {
    MutexLock lock(&mu_);
    if (state_ != State::kIdle || ending_ || queue_.empty()) return;
    Queued& front = queue_.front();
    if (front.dropped_before > 0) {
      next.dropped_before = std::exchange(front.dropped_before, 0);
      next.sequence = front.sequence;
      next.time = front.time;
    } else {
      next = std::move(front);
      queue_.pop_front();
    }
    state_ = State::kWriting;
  }
  if (next.news == nullptr) {
    out_.Clear();
    out_.mutable_dropped()->set_events(next.dropped_before);
  } else {
    out_ = ToWire(*next.news, *hub_->domains_);
  }
  out_.set_sequence(next.sequence);
  *out_.mutable_time() = ToWire(next.time);
  StartWrite(&out_);
}

void WatchCall::OnWriteDone(bool ok) {
  absl::Status why;
  {
    MutexLock lock(&mu_);
    if (ok && !ending_) {
      state_ = State::kIdle;
    } else {
      state_ = State::kFinished;
      if (cancelling_) return;  // Close() finishes
      why = ending_ ? why_ : absl::CancelledError("the watcher went away");
    }
  }
  if (!why.ok()) {
    Finish(ToGrpc(why));
  } else {
    Pump();
  }
}

void WatchCall::OnCancel() {
  {
    MutexLock lock(&mu_);
    if (state_ == State::kFinished) return;
    if (state_ == State::kWriting) {
      // The write fails now; OnWriteDone() goes on.
      if (!ending_) why_ = absl::CancelledError("the watcher went away");
      ending_ = true;
      return;
    }
    state_ = State::kFinished;
  }
  Finish(grpc::Status::CANCELLED);
}

void WatchCall::Close(const absl::Status& why) {
  bool cancel = false;
  {
    MutexLock lock(&mu_);
    if (state_ == State::kFinished || cancelling_) return;
    ending_ = true;
    why_ = why;
    if (state_ == State::kWriting) {
      cancel = cancelling_ = true;
    } else {
      state_ = State::kFinished;
    }
  }
  if (cancel) {
    // A client that does not read never lets the write end.
    context_->TryCancel();
    MutexLock lock(&mu_);
    cancelling_ = false;
    if (state_ != State::kFinished) return;  // OnWriteDone() is to come
  }
  Finish(ToGrpc(why));
}

void WatchCall::OnDone() { hub_->Remove(this); }

}  // namespace hugepool::service
