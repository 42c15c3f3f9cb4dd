#include "daemon/service/identities.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "daemon/base/views.h"

namespace hugepool::service {

Identities::~Identities() {
  // relaxed: nobody else has us any more.
  for (auto& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

bool Identities::Set(int fd, Caller caller) {
  const auto index = static_cast<size_t>(fd);
  if (fd < 0 || index >= kChunks * kPerChunk) return false;
  auto made = std::make_unique<const Caller>(std::move(caller));
  {
    MutexLock lock(&mu_);
    std::atomic<Chunk*>& slot = chunks_[index / kPerChunk];
    // relaxed: written under mu_ only.
    Chunk* chunk = slot.load(std::memory_order_relaxed);
    if (chunk == nullptr) {
      chunk = new Chunk;
      // release: with the acquire in Find().
      slot.store(chunk, std::memory_order_release);
    }
    (*chunk)[index % kPerChunk].Replace(std::move(made), guard_);
  }
  guard_.Collect();
  return true;
}

std::optional<Caller> Identities::Find(std::string_view peer) const {
  constexpr std::string_view kPrefix = "fd:";
  if (!peer.starts_with(kPrefix)) return std::nullopt;
  uint32_t fd = 0;
  if (!absl::SimpleAtoi(AbslView(peer.substr(kPrefix.size())), &fd)) {
    return std::nullopt;
  }
  if (fd >= kChunks * kPerChunk) return std::nullopt;
  // acquire: with the release in Set().
  const Chunk* const chunk =
      chunks_[fd / kPerChunk].load(std::memory_order_acquire);
  if (chunk == nullptr) return std::nullopt;
  const ReadGuard::Scope scope(guard_);
  const Caller* const caller = (*chunk)[fd % kPerChunk].Load(scope);
  if (caller == nullptr) return std::nullopt;
  return *caller;
}

}  // namespace hugepool::service
