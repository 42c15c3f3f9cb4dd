// The extent table: which extents there are and what state each is in. It lies
// in a shared memfd and is the ledger that a later daemon recovers from.
//
// Layout, one 64-byte slot an extent, slot 0 being the header:
//
//   0        8        16       24     28     32     36     40  41 42 44     48  64
//   | state  | lease  | inode  |domain|pages | node |births|sh|or|  |gone | free|
//
// A slot is written payload first, then the state word with a release store,
// so that a `kill -9` at any instant leaves either the old or the new truth and
// never half of one. No log, no I/O.
#ifndef HUGEPOOL_DAEMON_EXTENT_EXTENT_TABLE_H_
#define HUGEPOOL_DAEMON_EXTENT_EXTENT_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"
#include "daemon/extent/extent_state.h"
#include "daemon/extent/ids.h"

namespace hugepool {

// How the zero bytes of a clean extent came about.
enum class ExtentOrigin : uint8_t { kPopulated = 1, kClearedInPlace = 2 };

// Thread-safety: Allocate and Free may be called from any thread. All other
// access to a slot is serialised by the mutex of the pool that owns the extent,
// except state(), which any thread may read as a hint.
class ExtentTable {
 public:
  struct Birth {
    NodeId node;
    PageSize page_size = k2M;
    PageCount pages;
  };

  // A table for `capacity` extents, all empty. Costs 64 bytes an extent of
  // shared memory, touched as it is used.
  static absl::StatusOr<std::unique_ptr<ExtentTable>> Create(uint32_t capacity);
  ~ExtentTable();
  ExtentTable(const ExtentTable&) = delete;
  ExtentTable& operator=(const ExtentTable&) = delete;

  uint32_t capacity() const { return capacity_; }
  // The ledger's memfd, for the FdVault.
  int fd() const { return fd_.get(); }

  // Empty -> Populating. nullopt when the table is full.
  std::optional<SlotId> Allocate(const Birth& birth) HP_EXCLUDES(mu_);
  // `from` (Populating or Retiring) -> Empty.
  void Free(SlotId slot, ExtentState from) HP_EXCLUDES(mu_);

  // Moves the state; dies when the extent is not in `from` or the lifecycle
  // has no such move, since the books are wrong then.
  void Move(SlotId slot, ExtentState from, ExtentState to);

  // acquire: pairs with the release store in Move, so that a reader that sees
  // the state also sees the payload written before it.
  ExtentState state(SlotId slot) const {
    return static_cast<ExtentState>(
        At(slot).state.load(std::memory_order_acquire) & 0xff);
  }
  ExtentId id(SlotId slot) const {
    return ExtentId((uint64_t{At(slot).births} << 32) | slot.value());
  }
  static SlotId SlotOf(ExtentId id) {
    return SlotId(static_cast<uint32_t>(id.value()));
  }

  NodeId node(SlotId slot) const { return NodeId(At(slot).node); }
  PageSize page_size(SlotId slot) const {
    return PageSize::FromShift(At(slot).page_shift);
  }
  PageCount pages(SlotId slot) const { return PageCount(At(slot).pages); }
  // Of `pages`, those whose memory was given back while the extent is held.
  PageCount gone(SlotId slot) const { return PageCount(At(slot).gone); }
  PageCount present(SlotId slot) const { return pages(slot) - gone(slot); }
  LeaseId lease(SlotId slot) const { return LeaseId(At(slot).lease); }
  DomainId domain(SlotId slot) const { return DomainId(At(slot).domain); }
  uint64_t inode(SlotId slot) const { return At(slot).inode; }
  ExtentOrigin origin(SlotId slot) const {
    return static_cast<ExtentOrigin>(At(slot).origin);
  }

  // Payload; to be set before the Move that makes it true.
  void set_pages(SlotId slot, PageCount pages);
  // At most `pages`.
  void set_gone(SlotId slot, PageCount gone);
  void set_lease(SlotId slot, LeaseId lease) { At(slot).lease = lease.value(); }
  void set_domain(SlotId slot, DomainId d) { At(slot).domain = d.value(); }
  void set_inode(SlotId slot, uint64_t inode) { At(slot).inode = inode; }
  void set_origin(SlotId slot, ExtentOrigin origin) {
    At(slot).origin = static_cast<uint8_t>(origin);
  }

  // Slots that are not empty; a walk over the table.
  std::vector<SlotId> Living() const;

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> state;  // low byte: ExtentState; the rest is kept 0
    uint64_t lease;
    uint64_t inode;
    uint32_t domain;
    uint32_t pages;
    uint32_t node;
    uint32_t births;
    uint8_t page_shift;
    uint8_t origin;
    uint8_t flags;
    uint32_t gone;
    uint8_t reserved[16];
  };
  struct alignas(64) Header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_bytes;
    uint32_t capacity;
    uint8_t reserved[44];
  };
  static_assert(sizeof(Slot) == 64, "the ledger's slots are 64 bytes");
  static_assert(sizeof(Header) == 64, "the header takes the place of slot 0");
  static_assert(std::atomic<uint64_t>::is_always_lock_free,
                "a lock in shared memory would not survive a kill");

  ExtentTable(UniqueFd fd, void* base, uint32_t capacity);
  Slot& At(SlotId slot) const;

  const UniqueFd fd_;
  Slot* const slots_;  // slots_[0] is the header
  const uint32_t capacity_;

  mutable Mutex mu_;
  std::vector<uint32_t> free_ HP_GUARDED_BY(mu_);
  uint32_t next_fresh_ HP_GUARDED_BY(mu_) = 1;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_EXTENT_EXTENT_TABLE_H_
