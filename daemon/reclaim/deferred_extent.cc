#include "daemon/reclaim/deferred_extent.h"

#include "daemon/base/check.h"
#include "daemon/reclaim/deferred_queue.h"

namespace hugepool {

DeferredRef::DeferredRef(const DeferredRef& other)
    : DeferredRef(other ? To(*other) : DeferredRef()) {}

DeferredRef DeferredRef::To(DeferredExtent& extent) {
  // relaxed: the caller has a reference, so the count cannot end meanwhile.
  extent.references_.fetch_add(1, std::memory_order_relaxed);
  return Adopt(&extent);
}

DeferredRef::~DeferredRef() {
  // acq_rel: what others did with the extent before they gave up theirs
  // happened before it is freed; partner of the same line elsewhere.
  if (extent_ != nullptr &&
      extent_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete extent_;
  }
}

DeferredRef DeferredExtent::Make(DeferredQueue* queue, Pool* pool, ExtentId id,
                                 LeaseId lease, PageCount pages) {
  return DeferredRef::Adopt(
      new DeferredExtent(queue, pool, id, lease, pages));
}

DeferredExtent::~DeferredExtent() {
  // relaxed: nobody else has a reference.
  HP_CHECK(!queued_.load(std::memory_order_relaxed),
           "an extent in the queue has the queue's reference");
}

ReleasedPages::Noted DeferredExtent::Release(PageCount first, PageCount count,
                                             absl::Time now) {
  const ReleasedPages::Noted noted = released_.Release(first, count);
  // Pages released before were seen to by who released them.
  if (noted.fresh > PageCount(0)) queue_->Add(*this, now);
  return noted;
}

}  // namespace hugepool
