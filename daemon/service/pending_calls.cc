#include "daemon/service/pending_calls.h"

#include <utility>
#include <vector>

#include "daemon/service/wire.h"

namespace hugepool::service {

void PendingCall::Answer(const absl::Status& status,
                         const std::function<void()>& fill) {
  {
    MutexLock lock(&mu_);
    if (std::exchange(answered_, true)) return;
    if (!returned_) {
      // Under the lock: Reactor() must not hand out a reply half written.
      if (status.ok() && fill) fill();
      early_ = ToGrpc(status);
      return;
    }
  }
  if (status.ok() && fill) fill();
  Finish(ToGrpc(status));
}

grpc::ServerUnaryReactor* PendingCall::Reactor(
    grpc::CallbackServerContext* context) {
  grpc::Status answer;
  {
    MutexLock lock(&mu_);
    if (!answered_) {
      returned_ = true;
      return this;
    }
    answer = std::move(early_);
  }
  calls_->Remove(this);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(answer);
  return reactor;
}

void PendingCall::OnCancel() {
  {
    MutexLock lock(&mu_);
    if (answered_) return;
  }
  on_cancel_();
}

void PendingCall::OnDone() { calls_->Remove(this); }

std::shared_ptr<PendingCall> PendingCalls::New(std::function<void()> on_cancel) {
  auto call = std::make_shared<PendingCall>(this, std::move(on_cancel));
  MutexLock lock(&mu_);
  calls_[call.get()] = call;
  return call;
}

size_t PendingCalls::size() const {
  MutexLock lock(&mu_);
  return calls_.size();
}

void PendingCalls::AnswerAll(const absl::Status& status) {
  std::vector<std::shared_ptr<PendingCall>> all;
  {
    MutexLock lock(&mu_);
    for (const auto& [raw, call] : calls_) all.push_back(call);
  }
  for (const auto& call : all) call->Answer(status);
}

void PendingCalls::Remove(PendingCall* call) {
  std::shared_ptr<PendingCall> last;  // dies outside the lock
  MutexLock lock(&mu_);
  auto it = calls_.find(call);
  if (it == calls_.end()) return;
  last = std::move(it->second);
  calls_.erase(it);
}

}  // namespace hugepool::service
