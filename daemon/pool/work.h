// What a pool asks to have done to one extent, and what came of it.
#ifndef HUGEPOOL_DAEMON_POOL_WORK_H_
#define HUGEPOOL_DAEMON_POOL_WORK_H_

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/check.h"
#include "daemon/base/units.h"
#include "daemon/extent/ids.h"
#include "daemon/extent/released_pages.h"

namespace hugepool {

enum class WorkKind {
  kBuild,   // make or grow: policy, populate, verify; afterwards every byte zero
  kRetire,  // give the pages back to the kernel and close the file
  kProbe,   // take the inode back, ask for holders, check what came back
  kClear,   // zero in place
  kLetGo,   // unmap and close; the holder keeps the memory alive
  kCopy,    // fill with the bytes of other extents
  kVerify,  // look for bytes that are not zero
  // Give pages of a held extent back to the kernel, and count those that are
  // there.
  kSplit,
};
const char* ToString(WorkKind kind);

enum class WorkOutcome {
  kDone,     // as asked. Probe: nobody holds it, and it is whole
  kBusy,     // probe: somebody holds it
  kUnknown,  // probe: cannot tell
  // Probe: nobody holds it, but size, seals, pages or nodes changed. Verify:
  // there are bytes that are not zero.
  kDamaged,
  kNoPages,  // build: the kernel has no page for it (or the cgroup forbids it)
  kFailed,   // anything else; the extent is not to be trusted
};
const char* ToString(WorkOutcome outcome);

// Bytes of another extent, of any pool.
struct CopyPiece {
  SlotId source;
  Bytes from;    // in the source
  Bytes offset;  // in the extent that is filled
  Bytes length;
};

// The right and the duty to work on one extent. Exactly one exists for an
// extent in a work state; it must be settled with the pool that gave it.
class [[nodiscard]] WorkItem {
 public:
  WorkItem(WorkKind kind, SlotId slot, NodeId node, PageSize page_size,
           PageCount pages)
      : kind(kind), slot(slot), node(node), page_size(page_size), pages(pages) {}
  WorkItem(WorkItem&& o) noexcept
      : kind(o.kind),
        slot(o.slot),
        node(o.node),
        page_size(o.page_size),
        pages(o.pages),
        from(o.from),
        urgent(o.urgent),
        bare(o.bare),
        live(o.live),
        revoke(o.revoke),
        for_reuse(o.for_reuse),
        hot(o.hot),
        verify_from(o.verify_from),
        verify_to(o.verify_to),
        pass(o.pass),
        stray(o.stray),
        copy(std::move(o.copy)),
        gone(o.gone),
        runs(std::move(o.runs)),
        there(o.there),
        open_(std::exchange(o.open_, false)) {}
  WorkItem& operator=(WorkItem&&) = delete;
  ~WorkItem() { HP_CHECK(!open_, "a work item was dropped without settling"); }

  const WorkKind kind;
  const SlotId slot;
  const NodeId node;
  const PageSize page_size;
  const PageCount pages;  // the extent's pages (build: as they shall be)
  PageCount from;         // build: pages that are there and clean already
  // Somebody waits for it, or its pool is under the low watermark.
  bool urgent = false;
  // Build: file and mapping only, no page yet. Copy: into such a file.
  bool bare = false;
  // Probe: its lease has not ended, so its inode stays with the holder unless
  // nobody holds it any more.
  bool live = false;
  // Probe: its memory is taken from whoever has it, by order of an operator.
  bool revoke = false;
  // Probe: check the node of every page too, since the memory may be reused in
  // place.
  bool for_reuse = false;
  // Build, clear, copy: what somebody will touch first.
  Bytes hot;
  // Verify: what is to be looked at.
  Bytes verify_from;
  Bytes verify_to;
  uint64_t pass = 0;   // Pool::StartVerify(); 0: of none
  uint64_t stray = 0;  // to be set by who looks: bytes that were not zero
  std::vector<CopyPiece> copy;
  PageCount gone;  // probe: pages that are known not to be there
  // Split: pages to be given back, to be set by who took the item. None: only
  // count.
  std::vector<ReleasedPages::Run> runs;
  // Split, probe: to be set by who does it, where they were counted: pages that
  // are there.
  std::optional<PageCount> there;

 private:
  friend class Pool;
  bool open_ = true;
};

// An extent whose memory its last holder has given up.
struct BackExtent {
  LeaseId lease;
  DomainId domain;
  ExtentId extent;
  Bytes size;
};

// A granted extent that was to be prepared, and what came of it.
struct PreparedExtent {
  WorkKind kind = WorkKind::kCopy;
  LeaseId lease;
  ExtentId extent;
  WorkOutcome outcome = WorkOutcome::kDone;
  std::string why;
};

// A held extent of which other pages are there than before: released ones were
// given back, its holder punched some, or took some back.
struct ShrunkExtent {
  LeaseId lease;
  DomainId domain;
  ExtentId extent;
  Bytes before;
  Bytes after;
};

// What settling changed, for those above. Delivered outside the pool's mutex.
struct PoolNews {
  std::vector<BackExtent> back;
  std::vector<PreparedExtent> prepared;
  std::vector<ShrunkExtent> shrunk;
  uint64_t stray = 0;       // bytes that should have been zero and were not
  bool stock_grew = false;  // waiters may be served now
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_WORK_H_
