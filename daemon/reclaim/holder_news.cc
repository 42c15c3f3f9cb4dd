#include "daemon/reclaim/holder_news.h"

#include <set>

namespace hugepool {

void HolderNews::Add(sys::InodeId inode, Pool* pool, ExtentId extent) {
  MutexLock lock(&mu_);
  known_[inode] = Known{pool, extent, false};
}

void HolderNews::Remove(sys::InodeId inode) {
  MutexLock lock(&mu_);
  known_.erase(inode);
}

bool HolderNews::Gone(sys::InodeId inode) const {
  MutexLock lock(&mu_);
  auto it = known_.find(inode);
  return it == known_.end() || it->second.gone;
}

void HolderNews::On(const sys::HolderWatch::Event& event) {
  if (event.overflow) {
    std::set<Pool*> pools;
    {
      MutexLock lock(&mu_);
      for (const auto& [inode, known] : known_) pools.insert(known.pool);
    }
    for (Pool* pool : pools) {
      pool->TellLost();
      wake_(*pool);
    }
    return;
  }
  Known known;
  {
    MutexLock lock(&mu_);
    auto it = known_.find(event.inode);
    if (it == known_.end()) return;  // retired since
    if (event.deleted) it->second.gone = true;
    known = it->second;
  }
  const Pool::Told told{event.opened, event.closed, event.changed,
                        event.deleted};
  if (known.pool->Tell(known.extent, told)) wake_(*known.pool);
}

}  // namespace hugepool
