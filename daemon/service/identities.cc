#include "daemon/service/identities.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "daemon/base/views.h"

namespace hugepool::service {

void Identities::Set(int fd, Caller caller) {
  const auto index = static_cast<size_t>(fd);
  MutexLock lock(&mu_);
  if (callers_.size() <= index) callers_.resize(index + 1);
  callers_[index] = std::move(caller);
}

std::optional<Caller> Identities::Find(std::string_view peer) const {
  constexpr std::string_view kPrefix = "fd:";
  if (!peer.starts_with(kPrefix)) return std::nullopt;
  uint32_t fd = 0;
  if (!absl::SimpleAtoi(AbslView(peer.substr(kPrefix.size())), &fd)) {
    return std::nullopt;
  }
  MutexLock lock(&mu_);
  if (fd >= callers_.size()) return std::nullopt;
  return callers_[fd];
}

}  // namespace hugepool::service
