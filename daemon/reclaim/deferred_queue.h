// The extents of a node whose splitting can wait.
//
// Holders release ranges of their extents, many a second and from many threads;
// a scanner comes by when a pool runs short and has the released pages split
// off. The rules, and why (tests/models/deferred_queue_model_test runs through
// all orders of events, and shows that each of these rules is needed):
//
// 1. Who releases notes its pages, then looks at the extent's `queued` flag,
// and
//    leaves when it is set. So many releases of one extent take the lock once.
// 2. The flag is a hint to them and nothing else. Membership, links, length and
//    the flag itself change under the mutex only, and agree whenever it is
//    free.
// 3. The scanner clears the flag (under the mutex) *before* it reads which
// pages
//    were released. The pair is Dekker's:
//
//      releaser:  note the pages;  look at the flag
//      scanner:   clear the flag;  read the pages
//
//    All four are seq_cst, so they have one order for everybody. If the
//    releaser found the flag set, its look came before the clearing, and its
//    pages were noted before that: the scanner reads them. If it found the flag
//    clear, it takes the lock and queues the extent. Anything weaker lets the
//    look, or the read, overtake the write before it, and pages are forgotten.
// 4. A batch is not linked: it is a vector of references. Whatever the scanner
//    does without the lock touches no link, and a releaser may queue an extent
//    again that is in a batch.
// 5. The reference goes last, after the extent was put back, and after the
// lock.
#ifndef HUGEPOOL_DAEMON_RECLAIM_DEFERRED_QUEUE_H_
#define HUGEPOOL_DAEMON_RECLAIM_DEFERRED_QUEUE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/base/striped_counter.h"
#include "daemon/reclaim/deferred_extent.h"

namespace hugepool {

// Thread-safe. Lock order: mu_ is a leaf, and nothing is freed under it.
class DeferredQueue {
 public:
  // The most extents of one batch, whatever is asked for: an extent that is in
  // a batch waits for the others of it.
  static constexpr int kLargestBatch = 64;

  struct Options {
    // False only to show what the look is worth (tests/bench deferred): the
    // same code without the look.
    bool look_first = true;
  };
  struct Stats {
    uint64_t length = 0;
    // When the extent that waits longest became queued; InfiniteFuture where
    // none waits.
    absl::Time oldest = absl::InfiniteFuture();
    // Calls of Add; those that left without the lock; those that took it.
    uint64_t adds = 0;
    uint64_t early_exits = 0;
    uint64_t add_locks = 0;
    // Of all callers, and how often somebody else had the lock.
    uint64_t locks = 0;
    uint64_t contended = 0;
    // Extents: queued by Add, put into batches, back from them, left for good.
    uint64_t queued = 0;
    uint64_t taken = 0;
    uint64_t put_back = 0;
    uint64_t removed = 0;
  };
  // An extent in a batch, and since when it has been queued.
  struct Item {
    DeferredRef extent;
    absl::Time since;
  };
  using Batch = std::vector<Item>;

  DeferredQueue() : DeferredQueue(Options()) {}
  explicit DeferredQueue(Options options) : options_(options) {}
  // Nobody may use it any more. Lets go of what is queued.
  ~DeferredQueue();
  DeferredQueue(const DeferredQueue&) = delete;
  DeferredQueue& operator=(const DeferredQueue&) = delete;

  // For who has just noted pages as released: the extent is queued when this
  // returns, or its lease has come back whole, or the scanner that has it will
  // see the pages.
  void Add(DeferredExtent& extent, absl::Time now) {
    // seq_cst: comes after the caller's note of its pages
    // (ReleasedPages::Release) in the one order of all; partner of the clearing
    // in Unlink. Nothing else is concluded from it: who finds it set touches
    // nothing more.
    if (options_.look_first && extent.queued_.load(std::memory_order_seq_cst)) {
      early_exits_.Add(1);
      return;
    }
    AddLocked(extent, now);
  }

  // For the scanner: at most `most` extents, from the head. Pages that are
  // noted after this queue their extent again.
  Batch TakeBatch(int most);
  // For the scanner: survivors, which still have pages for another time. They
  // go to the tail, so that others get their turn, and keep their age. Those
  // whose lease came back meanwhile stay away. The caller has read their pages
  // after TakeBatch; what it finishes with it just lets go of.
  void PutBack(Batch survivors);

  // The extent's lease came back whole: it leaves unsplit, for good. Whether it
  // was queued. A scanner may still have it in its batch.
  bool Remove(DeferredExtent& extent);

  Stats stats() const;
  // INTERNAL with what is wrong: whether links, flags, length and ages agree.
  absl::Status CheckInvariants() const;

 private:
  class Lock;
  using Aged = std::pair<absl::Time, const DeferredExtent*>;

  void AddLocked(DeferredExtent& extent, absl::Time now);
  // At the tail. The reference becomes the queue's.
  void Link(Item item) HP_REQUIRES(mu_);
  // Returns the queue's reference, which must not go under the lock.
  Item Unlink(DeferredExtent& extent) HP_REQUIRES(mu_);
  // What is wrong with a linked extent; nothing: empty.
  std::string Wrong(const DeferredExtent& extent) const HP_REQUIRES(mu_);

  const Options options_;
  StripedCounter early_exits_;

  mutable Mutex mu_;
  // The ends of the list; an extent's links are guarded by mu_ like these.
  DeferredExtent* head_ HP_GUARDED_BY(mu_) = nullptr;
  DeferredExtent* tail_ HP_GUARDED_BY(mu_) = nullptr;
  // All that are linked, by age: those put back stand behind younger ones.
  absl::btree_set<Aged> by_age_ HP_GUARDED_BY(mu_);
  // length and oldest are filled in when it is read.
  Stats counts_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_DEFERRED_QUEUE_H_
