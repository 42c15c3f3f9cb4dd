// Readers walk a structure without a lock while a writer replaces parts of it.
//
// What a writer took out of the structure is freed only when no reader can have
// it any more. Readers count themselves in and out, in counters that a writer
// looks at (the kernel's SRCU does it so). Each part is reached by a
// GuardedPtr:
//
//   ReadGuard guard;
//   GuardedPtr<const Table> table;
//   // Reader:
//   ReadGuard::Scope scope(guard);
//   Use(table.Load(scope));  // good until the scope ends
//   // Writer, one at a time:
//   table.Replace(std::move(larger), guard);
//   guard.Collect();
//
// Why it is right (tests/models/read_guard_model_test runs through all orders).
// A reader (1) adds itself to a cell, (2) loads the pointer. A writer (3)
// replaces the pointer, (4) looks at the cells. All four are seq_cst, so they
// have one order that everybody agrees on. A reader that got the old pointer
// has (2) before (3), so (1) before (4): the writer finds it in its cell until
// it leaves. A cell counts exactly the readers that are in it, and once it was
// seen at zero after (3), no reader that has the old pointer is in it, nor
// comes there later. So a part may go when *each* cell was seen at zero once
// since, not necessarily at the same time.
//
// The two phases are only there to get that far while readers come and go
// without end: they enter the cells of the current phase, and those of the
// other one run empty. Once they have, the phases are swapped. A reader that
// read the phase just before enters the wrong cell: that delays, and harms
// nothing.
#ifndef HUGEPOOL_DAEMON_BASE_READ_GUARD_H_
#define HUGEPOOL_DAEMON_BASE_READ_GUARD_H_

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/mutex.h"
#include "daemon/base/thread_stripe.h"

namespace hugepool {

// Thread-safe. Lock order: mu_ is a leaf; nothing is freed under it.
class ReadGuard {
  struct Cell;

 public:
  // A reader, from construction to the end of its thread's block. Wait-free:
  // one addition at either end. Scopes nest.
  class Scope {
   public:
    explicit Scope(ReadGuard& guard)
        // relaxed: any phase is right, see above.
        : cell_(guard.cells_[guard.phase_.load(std::memory_order_relaxed)]
                            [ThisThreadsStripe().index]) {
      // seq_cst: (1) above, partner of the look in LookAtCells.
      cell_.readers.fetch_add(1, std::memory_order_seq_cst);
    }
    // release: what was read happened before the look that finds us gone.
    ~Scope() { cell_.readers.fetch_sub(1, std::memory_order_release); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Cell& cell_;
  };

  ReadGuard() = default;
  // There must be no reader. Frees all that is retired.
  ~ReadGuard();
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

  // `object` is out of the structure already, taken out as GuardedPtr does it,
  // and is freed by some later Collect. Never waits for readers.
  template <typename T>
  void Retire(std::unique_ptr<T> object) {
    if (object == nullptr) return;
    // std::function must be copyable.
    Retire([owned = std::shared_ptr<T>(std::move(object))] {});
  }
  // The same for what is more than an object: `free` is called once.
  void Retire(std::function<void()> free);

  // Frees what no reader can have any more, in the calling thread; never waits
  // for readers. Returns how many retired things that were. With readers about,
  // what is retired may need several calls; without, one is enough.
  int Collect();

  // Retired and not yet freed.
  int waiting() const;

 private:
  struct alignas(kCacheLineBytes) Cell {
    std::atomic<uint32_t> readers{0};
  };
  using Retired = std::vector<std::function<void()>>;

  // One step: looks at the cells, and moves what may be freed to `free`. True
  // when there may be more.
  bool Advance(Retired* free) HP_REQUIRES(mu_);
  void LookAtCells() HP_REQUIRES(mu_);

  std::atomic<uint32_t> phase_{0};  // changed under mu_
  std::array<std::array<Cell, kStripes>, 2> cells_;

  mutable Mutex mu_;
  // Retired since the batch was closed: cells seen at zero before tell nothing
  // of these.
  Retired next_ HP_GUARDED_BY(mu_);
  // The batch, and which cells were seen at zero since it was closed.
  Retired batch_ HP_GUARDED_BY(mu_);
  std::bitset<2 * kStripes> seen_ HP_GUARDED_BY(mu_);
  bool swapped_ HP_GUARDED_BY(mu_) = false;
};

// A pointer that readers follow and a writer replaces. Owns what it points to.
template <typename T>
class GuardedPtr {
 public:
  GuardedPtr() = default;
  explicit GuardedPtr(std::unique_ptr<T> first) : ptr_(first.release()) {}
  // There must be no reader.
  ~GuardedPtr() { delete ptr_.load(std::memory_order_relaxed); }
  GuardedPtr(const GuardedPtr&) = delete;
  GuardedPtr& operator=(const GuardedPtr&) = delete;

  // Good until `scope` ends.
  T* Load(const ReadGuard::Scope& scope) const {
    // seq_cst: (2) above, partner of the exchange in Replace.
    return ptr_.load(std::memory_order_seq_cst);
  }
  // For the writer, whom nobody can take it from.
  T* LoadAsWriter() const { return ptr_.load(std::memory_order_relaxed); }

  // Readers see `next` from now on (whole: the exchange releases what was
  // written to it). What was there is retired.
  void Replace(std::unique_ptr<T> next, ReadGuard& guard) {
    // seq_cst: (3) above.
    guard.Retire(std::unique_ptr<T>(
        ptr_.exchange(next.release(), std::memory_order_seq_cst)));
  }

 private:
  std::atomic<T*> ptr_{nullptr};
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_READ_GUARD_H_
