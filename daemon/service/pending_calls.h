// Calls of gRPC that wait for an answer from the LeaseManager.
#ifndef HUGEPOOL_DAEMON_SERVICE_PENDING_CALLS_H_
#define HUGEPOOL_DAEMON_SERVICE_PENDING_CALLS_H_

#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace hugepool::service {

class PendingCalls;

// A unary call that is answered on any thread: while its handler runs, or later.
// No thread waits for it (N53). Lives until gRPC is done with it and nobody
// refers to it.
//
// With a reactor of our own gRPC leaves the end of a call to its executor, on
// another thread, once when the answer is out and once more for OnDone. A call
// that is answered before its handler returns, as an Acquire from stock is, needs
// neither cancellation nor OnDone, so it ends with gRPC's own reactor, without
// these hops.
class PendingCall : public grpc::ServerUnaryReactor {
 public:
  PendingCall(PendingCalls* calls, std::function<void()> on_cancel)
      : calls_(calls), on_cancel_(std::move(on_cancel)) {}

  // Answers, unless it was answered already. `fill`, if any, writes the reply
  // first; it runs only where the answer counts, so the reply is still there. It
  // must not call back.
  void Answer(const absl::Status& status,
              const std::function<void()>& fill = nullptr) HP_EXCLUDES(mu_);
  // The reactor for the handler to return; the last thing that it does. The
  // handler has a reference of its own.
  grpc::ServerUnaryReactor* Reactor(grpc::CallbackServerContext* context)
      HP_EXCLUDES(mu_);

  // From gRPC. The caller went away.
  void OnCancel() override;
  void OnDone() override;

 private:
  PendingCalls* const calls_;
  const std::function<void()> on_cancel_;
  Mutex mu_;
  bool answered_ HP_GUARDED_BY(mu_) = false;
  bool returned_ HP_GUARDED_BY(mu_) = false;  // gRPC has this as its reactor
  grpc::Status early_ HP_GUARDED_BY(mu_);     // the answer from before that
};

// All that are pending. Thread-safe. Must outlive the server's shutdown.
class PendingCalls {
 public:
  // `on_cancel` is called when the caller goes away before the answer.
  std::shared_ptr<PendingCall> New(std::function<void()> on_cancel);
  size_t size() const;
  // Answers all of them.
  void AnswerAll(const absl::Status& status);

 private:
  friend class PendingCall;
  void Remove(PendingCall* call);

  mutable Mutex mu_;
  absl::flat_hash_map<PendingCall*, std::shared_ptr<PendingCall>> calls_
      HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_PENDING_CALLS_H_
