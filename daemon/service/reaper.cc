#include "daemon/service/reaper.h"

#include <pthread.h>

#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace hugepool::service {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

Reaper::Reaper() : shared_(std::make_shared<Shared>()) {
  std::thread thread([shared = shared_] { Run(shared.get()); });
  pthread_setname_np(thread.native_handle(), "hp-reaper");
  thread.detach();
}

Reaper::~Reaper() {
  const absl::Time give_up = absl::Now() + kPatience;
  MutexLock lock(&shared_->mu);
  shared_->stop = true;
  shared_->wake.Signal();
  while (!shared_->ended) {
    const absl::Duration left = give_up - absl::Now();
    if (left <= absl::ZeroDuration()) return;
    shared_->ended_wake.WaitFor(&shared_->mu, left);
  }
}

void Reaper::Close(UniqueFd fd) {
  if (!fd.valid()) return;
  MutexLock lock(&shared_->mu);
  shared_->fds.push_back(std::move(fd));
  shared_->wake.Signal();
}

void Reaper::Close(std::vector<UniqueFd> fds) {
  for (UniqueFd& fd : fds) Close(std::move(fd));
}

void Reaper::Run(Shared* shared) {
  while (true) {
    UniqueFd fd;
    {
      MutexLock lock(&shared->mu);
      while (shared->fds.empty() && !shared->stop) {
        shared->wake.Wait(&shared->mu);
      }
      if (shared->fds.empty()) {
        shared->ended = true;
        shared->ended_wake.Signal();
        return;
      }
      fd = std::move(shared->fds.front());
      shared->fds.pop_front();
    }
  }
}

}  // namespace hugepool::service
