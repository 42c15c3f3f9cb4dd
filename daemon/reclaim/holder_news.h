// From the inotify watch to the books: which inode is which extent.
#ifndef HUGEPOOL_DAEMON_RECLAIM_HOLDER_NEWS_H_
#define HUGEPOOL_DAEMON_RECLAIM_HOLDER_NEWS_H_

#include <functional>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/mutex.h"
#include "daemon/extent/ids.h"
#include "daemon/pool/pool.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool {

// Thread-safe. Lock order: mu_ is a leaf, released before a pool is told.
class HolderNews {
 public:
  // `wake` is called when telling a pool made work for its stewards.
  explicit HolderNews(std::function<void(const Pool&)> wake)
      : wake_(std::move(wake)) {}

  void Add(sys::InodeId inode, Pool* pool, ExtentId extent);
  void Remove(sys::InodeId inode);
  // Whether the inode of an extent that was let go has ended, and its memory
  // with it.
  bool Gone(sys::InodeId inode) const;

  // The callback for sys::HolderWatch.
  void On(const sys::HolderWatch::Event& event);

 private:
  struct Known {
    Pool* pool = nullptr;
    ExtentId extent;
    bool gone = false;
  };
  const std::function<void(const Pool&)> wake_;
  mutable Mutex mu_;
  absl::flat_hash_map<sys::InodeId, Known> known_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_HOLDER_NEWS_H_
