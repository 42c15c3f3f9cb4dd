// Calls that wait for an answer from the LeaseManager.
#ifndef HUGEPOOL_DAEMON_SERVICE_CALLS_H_
#define HUGEPOOL_DAEMON_SERVICE_CALLS_H_

#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "grpcpp/support/server_callback.h"

namespace hugepool::service {

class Calls;

// A unary call that is answered later, on any thread. No thread waits for it
// (N53). Lives until gRPC is done with it and nobody refers to it.
class PendingCall : public grpc::ServerUnaryReactor {
 public:
  PendingCall(Calls* calls, std::function<void()> on_cancel)
      : calls_(calls), on_cancel_(std::move(on_cancel)) {}

  // Answers, unless it was answered already. `fill`, if any, writes the reply
  // first; it runs only where the answer counts, so the reply is still there.
  void Answer(const absl::Status& status,
              const std::function<void()>& fill = nullptr) HP_EXCLUDES(mu_);

  // From gRPC. The caller went away.
  void OnCancel() override;
  void OnDone() override;

 private:
  Calls* const calls_;
  const std::function<void()> on_cancel_;
  Mutex mu_;
  bool answered_ HP_GUARDED_BY(mu_) = false;
};

// All that are pending. Thread-safe. Must outlive the server's shutdown.
class Calls {
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

#endif  // HUGEPOOL_DAEMON_SERVICE_CALLS_H_
