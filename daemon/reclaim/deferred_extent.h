// An extent whose holder released a part of it.
#ifndef HUGEPOOL_DAEMON_RECLAIM_DEFERRED_EXTENT_H_
#define HUGEPOOL_DAEMON_RECLAIM_DEFERRED_EXTENT_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/units.h"
#include "daemon/extent/ids.h"
#include "daemon/extent/released_pages.h"

namespace hugepool {

class DeferredExtent;
class DeferredQueue;
class Pool;

// A reference to a DeferredExtent. The last one frees it.
class DeferredRef {
 public:
  DeferredRef() = default;
  DeferredRef(const DeferredRef& other);
  DeferredRef(DeferredRef&& other) noexcept
      : extent_(std::exchange(other.extent_, nullptr)) {}
  DeferredRef& operator=(DeferredRef other) noexcept {
    std::swap(extent_, other.extent_);
    return *this;
  }
  ~DeferredRef();

  DeferredExtent* get() const { return extent_; }
  DeferredExtent& operator*() const { return *extent_; }
  DeferredExtent* operator->() const { return extent_; }
  explicit operator bool() const { return extent_ != nullptr; }

  // For who keeps references in another form, such as an atomic pointer. Takes
  // over a reference that was counted already.
  static DeferredRef Adopt(DeferredExtent* extent) {
    DeferredRef ref;
    ref.extent_ = extent;
    return ref;
  }
  // The reference stays counted, and is the caller's from now on.
  DeferredExtent* Let() { return std::exchange(extent_, nullptr); }

 private:
  friend class DeferredExtent;
  friend class DeferredQueue;
  // One more; the caller has one.
  static DeferredRef To(DeferredExtent& extent);

  DeferredExtent* extent_ = nullptr;
};

// Made at the first release of a part, for one grant of the extent: the next
// lease of the same memory gets another one. Who calls it has a reference, or
// reads inside the ReadGuard of the structure where it was found; that
// structure's own reference is then given up through the guard.
class DeferredExtent {
 public:
  // `queue` is that of the extent's node, and outlives it; `pool` is for those
  // who work on the extent, and only passed through.
  static DeferredRef Make(DeferredQueue* queue, Pool* pool, ExtentId id,
                          LeaseId lease, PageCount pages);
  DeferredExtent(const DeferredExtent&) = delete;
  DeferredExtent& operator=(const DeferredExtent&) = delete;

  ExtentId id() const { return id_; }
  // Whose pages these are: the same extent can be another's by now.
  LeaseId lease() const { return lease_; }
  Pool* pool() const { return pool_; }
  PageCount pages() const { return released_.pages(); }
  uint32_t references() const {
    // relaxed: a look.
    return references_.load(std::memory_order_relaxed);
  }
  // A hint.
  bool queued() const {
    // relaxed: for deciding whether to wake somebody.
    return queued_.load(std::memory_order_relaxed);
  }
  ReleasedPages& released() { return released_; }
  const ReleasedPages& released() const { return released_; }

  // The whole way of a release, from many threads at once: notes the pages and
  // sees to it that the extent is queued. No lock but the queue's, and that
  // only when the extent was not queued. The pages must be the extent's
  // (ReleasedPages::Contains). `now` is kept where the extent becomes queued.
  ReleasedPages::Noted Release(PageCount first, PageCount count,
                               absl::Time now);

 private:
  friend class DeferredQueue;
  friend class DeferredQueuePeer;  // of the test, which spoils them
  friend class DeferredRef;

  DeferredExtent(DeferredQueue* queue, Pool* pool, ExtentId id, LeaseId lease,
                 PageCount pages)
      : queue_(queue),
        pool_(pool),
        id_(id),
        lease_(lease),
        released_(pages) {}
  ~DeferredExtent();

  DeferredQueue* const queue_;
  Pool* const pool_;
  const ExtentId id_;
  const LeaseId lease_;
  ReleasedPages released_;
  std::atomic<uint32_t> references_{1};

  // Whether the extent is in the queue. Written only under the queue's mutex,
  // and then always the truth; read without it as a hint (see DeferredQueue).
  std::atomic<bool> queued_{false};
  // The rest is touched only under the queue's mutex, by DeferredQueue. Not in
  // the queue: both null.
  DeferredExtent* prev_ = nullptr;
  DeferredExtent* next_ = nullptr;
  // Since when it has been queued. Only meaningful while it is.
  absl::Time since_;
  // Its lease came back whole: it is never queued again.
  bool ended_ = false;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_DEFERRED_EXTENT_H_
