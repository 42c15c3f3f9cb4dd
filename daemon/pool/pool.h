// The books of one pool: all extents of one node and page size.
//
// pool.cc has taking, waiting and returning; pool_work.cc what stewards take and
// settle, of which pool_fill.cc has the building; pool_prepare.cc what is done
// before a grant is sent, and verification; pool_split.cc the pages that a lease gives
// up while it goes on; pool_check.cc the audit.
//
// A pool decides and never acts. It knows no clock, no thread and no system
// call: stewards take work items from it, do them, and settle them. So the same
// code runs under op-sequence tests, fuzzers and the daemon.
#ifndef HUGEPOOL_DAEMON_POOL_POOL_H_
#define HUGEPOOL_DAEMON_POOL_POOL_H_

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/base/units.h"
#include "daemon/extent/extent_table.h"
#include "daemon/pool/compose.h"
#include "daemon/pool/demand_plan.h"
#include "daemon/pool/shape_plan.h"
#include "daemon/pool/work.h"
#include "daemon/sys/topology.h"

namespace hugepool {

struct PoolConfig {
  NodeId node;
  PageSize page_size = k2M;
  PageCount target;  // pages to own in total, leased ones included
  PageCount low;     // clean stock below this is urgent
  PageCount high;    // clean stock is filled up to this
  std::vector<PageCount> shapes;  // empty: DefaultShapes
  bool learn_shapes = true;       // shapes: auto
  // No probe on this kernel: descriptors are closed at the acknowledgement,
  // and the end of the inode is the only news ("let go", docs/design.md).
  bool let_go = false;
};

// Why a pool wants to build, the most urgent first.
enum class Need {
  kWaiters,  // somebody waits for it
  kLow,      // its clean stock is under the low watermark: the next may wait
  kRest,     // to be full again
};

// What a granted extent may expect at its return.
struct GrantTerms {
  LeaseId lease;
  DomainId domain;
  bool in_place = false;         // may be cleared in place afterwards
  bool memory_lifetime = false;  // to be asked about while it is held
  // Keep the descriptor although the pool lets go (NAMED leases).
  bool keep_descriptor = false;
  // Only extents that nobody has held: one that was cleared in place has the
  // seals of its first grant, which cannot be added to (sealed leases).
  bool fresh_only = false;
  // All of it will be filled with a copy before anybody gets it: where it must
  // wait, what is made for it may come without pages (see Preparation).
  bool fills = false;

  // Whose stock may be taken beside that for anybody.
  DomainId stock() const { return fresh_only ? DomainId() : domain; }
};

struct PoolSnapshot {
  PoolConfig config;
  std::array<PageCount, kExtentStates> pages_by_state;
  PageCount charged;  // all of them
  PageCount limbo;
  PageCount made;  // of those that are being populated
  uint32_t extents = 0;
  uint32_t waiters = 0;
  ShapeCounts clean;   // of all domains
  ShapeCounts wanted;  // by the plan
  std::string shortfall;  // why it owns less than its target; empty: it does not
  std::optional<sys::KernelCounters> kernel;
  PageCount leased_high_water;
  uint64_t grants = 0;
  uint64_t hits = 0;
  uint64_t retired = 0;
  uint64_t cleared = 0;
  Bytes verified;      // looked at, ever
  uint64_t stray = 0;  // bytes found that were not zero
  Bytes filled;        // of bare extents, ever
  PageCount gone;      // of extents that are leased: given back meanwhile
  Bytes split;         // given back out of leased extents, ever
  Bytes regained;      // that holders took back without asking, ever

  PageCount in(ExtentState s) const {
    return pages_by_state[static_cast<size_t>(s)];
  }
};

// What is to be done to a granted extent before its lease is sent. One that is
// bare is given its pages too.
struct Preparation {
  bool verify = false;          // all of it must be zero
  std::vector<CopyPiece> copy;  // what it shall hold; none: zeros
  Bytes hot;
};

// Thread-safe: every public method locks the pool's mutex, except the *Locked
// ones, which Host calls with several pools locked in the order of their
// addresses in Host (`mu()`).
class Pool {
 public:
  Pool(const PoolConfig& config, ExtentTable* table);

  const NodeId node;
  const PageSize page_size;

  // Whether descriptors are closed at the acknowledgement (PoolConfig::let_go).
  bool lets_go() const { return config_.let_go; }

  Mutex& mu() const HP_RETURN_CAPABILITY(mu_) { return mu_; }

  // --- For Host: taking and waiting -----------------------------------------
  // Counts of the extents that a lease of these terms may be given.
  ShapeCounts UsableLocked(const GrantTerms& terms) const HP_REQUIRES(mu_);
  // Whether a request of `pages` that arrived as number `sequence` may take
  // them now, in view of those that wait before it.
  bool MayPassLocked(uint64_t sequence, PageCount pages) const HP_REQUIRES(mu_);
  // What is there already of the extent that is being built.
  PageCount MadeLocked() const HP_REQUIRES(mu_);
  // Clean or Bare -> Granted for one extent of each of `shapes`, all of which must
  // be usable; what was made for the lease first, then own stock of the domain.
  // Charges the bypass of earlier waiters.
  std::vector<SlotId> TakeLocked(const std::vector<PageCount>& shapes,
                                 const GrantTerms& terms, uint64_t sequence,
                                 bool hit) HP_REQUIRES(mu_);
  bool IsBareLocked(SlotId slot) const HP_REQUIRES(mu_) {
    return records_.at(slot).bare_for.valid();
  }
  void EnqueueLocked(const Demand& demand) HP_REQUIRES(mu_);
  // What was made for it and not taken is retired.
  bool DequeueLocked(LeaseId lease) HP_REQUIRES(mu_);
  void NoteSingleExtentLocked(PageCount pages) HP_REQUIRES(mu_);

  // --- For leases -------------------------------------------------------------
  // Granted -> Held: acknowledged.
  void Held(SlotId slot) HP_EXCLUDES(mu_);
  // Granted -> Clean: the grant came to nothing before anything was opened for
  // the client, so nobody but the daemon has seen the memory.
  void Untake(SlotId slot) HP_EXCLUDES(mu_);
  // Granted or Held -> Returning: rolled back or released; to be probed at
  // once. `keep_in_place` false withdraws the permission to clear in place.
  // Nothing happens where `lease` has the extent no more: the memory of a
  // MEMORY lease can come back by itself just before it is released, while the
  // news of it is still on its way.
  void Return(SlotId slot, LeaseId lease, bool keep_in_place)
      HP_EXCLUDES(mu_);
  // Whether Revoke() would take the extent's memory: `lease` has it, or had it
  // last, and its descriptor is not let go.
  bool MayRevoke(SlotId slot, LeaseId lease) const HP_EXCLUDES(mu_);
  // Once its lease has ended, which may have happened already, the memory is
  // taken from whoever still has it: their next access is a SIGBUS. Nothing
  // happens where MayRevoke() says so. Not for sealed leases, whose holders
  // would only take pages anew.
  void Revoke(SlotId slot, LeaseId lease) HP_EXCLUDES(mu_);
  // Granted: a steward prepares it before anything else, and
  // PoolNews::prepared tells the outcome. Nothing was opened for the client yet.
  void Prepare(SlotId slot, Preparation preparation) HP_EXCLUDES(mu_);
  // Granted, and nothing was opened for the client, nor will be: once it is
  // returned no closing has to be waited for.
  void NeverOpened(SlotId slot) HP_EXCLUDES(mu_);
  // Keeps the memory of an extent that `lease` has from being cleared or given
  // back until EndReading(), whatever becomes of the lease. False: `lease` does
  // not hold it (any more), or its descriptor is let go.
  bool StartReading(SlotId slot, LeaseId lease) HP_EXCLUDES(mu_);
  void EndReading(SlotId slot) HP_EXCLUDES(mu_);
  // The daemon is about to open `slot` for a holder once more: that opening is
  // not a tripwire.
  void ExpectOpen(SlotId slot) HP_EXCLUDES(mu_);

  // --- For the first witness (the inotify watch) ------------------------------
  struct Told {
    bool opened = false;
    bool closed = false;
    bool changed = false;
    bool deleted = false;
  };
  // True when there is work to do now. Ignores extents that have ended since
  // (`id` tells).
  bool Tell(ExtentId id, const Told& told) HP_EXCLUDES(mu_);
  // Events were lost: look at everything, trust no quiet.
  void TellLost() HP_EXCLUDES(mu_);

  // --- For stewards -----------------------------------------------------------
  // Work that takes microseconds: letting go, probing. To be done before any
  // building.
  std::optional<WorkItem> TakeQuickWork(absl::Time now) HP_EXCLUDES(mu_);
  // Clearing, building and retiring, the most urgent first. `kernel` are the kernel's
  // counters as just read, or nullopt where they cannot be read.
  std::optional<WorkItem> TakeWork(
      absl::Time now, const std::optional<sys::KernelCounters>& kernel)
      HP_EXCLUDES(mu_);
  // Somebody waits for what stewards do here.
  bool HasWaiters() const HP_EXCLUDES(mu_);
  // How much the pool's next build matters beside those of other pools.
  Need needs() const HP_EXCLUDES(mu_);
  PoolNews Settle(WorkItem item, WorkOutcome outcome, std::string_view why,
                  absl::Time now) HP_EXCLUDES(mu_);
  // When TakeWork may have something that it has not now; InfiniteFuture: only
  // when told.
  absl::Time NextLook() const HP_EXCLUDES(mu_);
  // Build items: the new file's inode, before the item is settled.
  void SetInode(const WorkItem& item, uint64_t inode) HP_EXCLUDES(mu_);
  ExtentId IdOf(const WorkItem& item) const { return table_->id(item.slot); }
  // So many pages more of the build at hand are there: to be shown while a large
  // one goes on. From any thread, without a lock, since those who make pages may
  // be of the idle class.
  void NoteMade(PageCount pages) {
    // relaxed: a figure for people, on which nothing depends.
    made_.fetch_add(pages.value(), std::memory_order_relaxed);
  }
  // Whether extents may be made bare for those who will fill them. From any
  // thread.
  void LetFill(bool yes) {
    // relaxed: a hint, read once a demand.
    fills_.store(yes, std::memory_order_relaxed);
  }
  bool fills() const { return fills_.load(std::memory_order_relaxed); }
  // Stop filling (shutdown): TakeWork gives no more builds.
  void StopFilling() HP_EXCLUDES(mu_);

  // --- For splitting ----------------------------------------------------------
  // How many released pages the pool should give back now, because its stock is
  // short and the kernel has none for it: from the low watermark on until the
  // high one is reached, or for those who wait.
  PageCount WantsSplit() HP_EXCLUDES(mu_);
  // An item to give pages of an extent back that `lease` holds (WorkItem::runs);
  // nullopt: not now. The lease is asked for because an extent that is cleared in
  // place goes to the next one under the same id.
  std::optional<WorkItem> StartSplit(ExtentId id, LeaseId lease)
      HP_EXCLUDES(mu_);
  // Whether it may be had later: the lease lives, and we have the descriptor.
  bool MaySplit(ExtentId id, LeaseId lease) const HP_EXCLUDES(mu_);
  // Has the pages of extents counted of which some are gone, since a holder that
  // touches one has it again, and nothing tells.
  void RecountShrunk() HP_EXCLUDES(mu_);

  // --- For verification -------------------------------------------------------
  // Has everything looked at that is clean now, under a number of the caller's.
  void StartVerify(uint64_t pass) HP_EXCLUDES(mu_);
  struct VerifyResult {
    Bytes verified;  // what was lent meanwhile was not looked at
    uint64_t stray = 0;
  };
  // nullopt: not done yet, or no such pass. Forgets a pass that is done.
  std::optional<VerifyResult> FinishVerify(uint64_t pass) HP_EXCLUDES(mu_);
  // Nobody waits for the pass any more.
  void CancelVerify(uint64_t pass) HP_EXCLUDES(mu_);
  // Has `most` of the clean memory looked at, each time where the last one ended.
  void SampleVerify(Bytes most) HP_EXCLUDES(mu_);
  // How much of the stock is being looked at right now.
  PageCount Verifying() const HP_EXCLUDES(mu_);

  PoolSnapshot Snapshot() const HP_EXCLUDES(mu_);
  // Counts everything again from the table and compares. For tests and for the
  // daemon's own audit. O(extents).
  absl::Status CheckInvariants() const HP_EXCLUDES(mu_);

 private:
  // What the pool knows of an extent beside its slot.
  struct Record {
    absl::Time next_look = absl::InfiniteFuture();
    uint16_t looks = 0;           // without success; for the backoff
    uint16_t expected_opens = 0;  // by us, not yet reported by the watch
    bool quiet = true;      // not lent, or the watch reported a closing last
    bool tripped = false;   // somebody else opened it: never reuse in place
    bool ended = true;      // no lease lives in it
    bool revoked = false;   // at its end it is taken from whoever has it
    bool in_place = false;  // GrantTerms
    bool memory_lifetime = false;
    bool to_let_go = false;   // at the acknowledgement
    bool let_go = false;      // its descriptor is being, or was, closed
    bool letting_go = false;  // a kLetGo item is out
    bool poked = false;       // told something while it was being probed
    bool stillborn = false;   // its build failed: no page of it was ever lent
    LeaseId bare_for;         // it has no pages yet, and is for this lease
    uint16_t readers = 0;     // StartReading()
    bool look_later = false;  // when the last reader has left
  };
  // A request to look at clean memory.
  struct VerifyPass {
    uint64_t id = 0;
    std::deque<ExtentId> left;
    bool at_work = false;  // an item is out
    VerifyResult result;
  };
  using StockOfDomain =
      std::map<PageCount, std::vector<SlotId>, std::greater<>>;

  void Go(SlotId slot, ExtentState from, ExtentState to) HP_REQUIRES(mu_);
  void AddPages(ExtentState state, PageCount pages) HP_REQUIRES(mu_);
  void SubPages(ExtentState state, PageCount pages) HP_REQUIRES(mu_);
  void AddClean(SlotId slot) HP_REQUIRES(mu_);
  bool RemoveClean(SlotId slot) HP_REQUIRES(mu_);
  SlotId PopClean(DomainId domain, PageCount shape) HP_REQUIRES(mu_);
  SlotId PopBare(LeaseId lease, PageCount shape) HP_REQUIRES(mu_);
  void RemoveBare(SlotId slot) HP_REQUIRES(mu_);
  void NoLongerBare(SlotId slot) HP_REQUIRES(mu_);
  void ToRetiring(SlotId slot, ExtentState from) HP_REQUIRES(mu_);
  void StartLettingGo(SlotId slot) HP_REQUIRES(mu_);
  void Look(SlotId slot, absl::Time when) HP_REQUIRES(mu_);
  void NoLook(SlotId slot) HP_REQUIRES(mu_);
  void Forget(SlotId slot, ExtentState from) HP_REQUIRES(mu_);
  void ReportBack(SlotId slot, PoolNews* news) HP_REQUIRES(mu_);

  std::optional<WorkItem> TakeProbe(absl::Time now) HP_REQUIRES(mu_);
  std::optional<WorkItem> TakeRecount() HP_REQUIRES(mu_);
  // By a living lease, and we have the descriptor.
  bool IsHeld(SlotId slot, const Record& record) const HP_REQUIRES(mu_);
  std::optional<WorkItem> StartSplitLocked(ExtentId id) HP_REQUIRES(mu_);
  void NotePages(const WorkItem& item, PageCount there, PoolNews* news)
      HP_REQUIRES(mu_);
  void SettleSplit(const WorkItem& item, PoolNews* news) HP_REQUIRES(mu_);
  std::optional<WorkItem> TakePreparation() HP_REQUIRES(mu_);
  std::optional<WorkItem> TakeRetire() HP_REQUIRES(mu_);
  std::optional<WorkItem> TakeVerify() HP_REQUIRES(mu_);
  std::optional<WorkItem> TakeSample() HP_REQUIRES(mu_);
  bool IsClean(ExtentId id) const HP_REQUIRES(mu_);
  void NoteVerified(const WorkItem& item, PoolNews* news) HP_REQUIRES(mu_);
  // What TakeLocked() expected to be opened will not be.
  static void NoOpening(Record& record) {
    record.quiet = true;
    if (record.expected_opens > 0) --record.expected_opens;
  }
  std::optional<WorkItem> TakeBuild(absl::Time now) HP_REQUIRES(mu_);
  std::optional<WorkItem> StartBuild(const DemandStep& step, bool urgent)
      HP_REQUIRES(mu_);
  WorkItem Item(WorkKind kind, SlotId slot) const HP_REQUIRES(mu_);
  PageCount Budget(PageCount ceiling) const HP_REQUIRES(mu_);
  DemandView View() const HP_REQUIRES(mu_);
  std::optional<PageCount> NextFill() const HP_REQUIRES(mu_);
  ShapeCounts WantedShapes() const HP_REQUIRES(mu_);
  PageCount Stock() const HP_REQUIRES(mu_);

  void SettleBuild(const WorkItem& item, WorkOutcome outcome,
                   std::string_view why, absl::Time now, PoolNews* news)
      HP_REQUIRES(mu_);
  void SettleBare(SlotId slot, PoolNews* news) HP_REQUIRES(mu_);
  void SettleProbe(const WorkItem& item, WorkOutcome outcome, absl::Time now,
                   PoolNews* news) HP_REQUIRES(mu_);
  void SettleClear(const WorkItem& item, WorkOutcome outcome, PoolNews* news)
      HP_REQUIRES(mu_);
  void SettleRetire(const WorkItem& item) HP_REQUIRES(mu_);
  void SettlePreparation(const WorkItem& item, WorkOutcome outcome,
                         std::string_view why, PoolNews* news)
      HP_REQUIRES(mu_);
  void SettleVerify(const WorkItem& item, WorkOutcome outcome, PoolNews* news)
      HP_REQUIRES(mu_);
  void SettleLetGo(const WorkItem& item) HP_REQUIRES(mu_);
  void NoteKernel(const std::optional<sys::KernelCounters>& kernel)
      HP_REQUIRES(mu_);
  void NoteNoPages(PageCount wanted) HP_REQUIRES(mu_);
  std::string Shortfall() const HP_REQUIRES(mu_);

  // Somebody waits for memory under that id.
  bool Waits(LeaseId lease) const HP_REQUIRES(mu_);
  // Parts of CheckInvariants().
  absl::Status CheckExtent(SlotId slot) const HP_REQUIRES(mu_);
  absl::Status CheckCounts() const HP_REQUIRES(mu_);
  absl::Status CheckPreparations() const HP_REQUIRES(mu_);
  absl::Status CheckStock() const HP_REQUIRES(mu_);
  absl::Status CheckBare() const HP_REQUIRES(mu_);

  PageCount InState(ExtentState s) const HP_REQUIRES(mu_) {
    return pages_by_state_[static_cast<size_t>(s)];
  }

  mutable Mutex mu_;
  // Pages of the build at hand; a steward has one at a time. See NoteMade().
  std::atomic<uint64_t> made_{0};
  std::atomic<bool> fills_{false};  // LetFill()
  const PoolConfig config_;
  ExtentTable* const table_;

  absl::flat_hash_map<SlotId, Record> records_ HP_GUARDED_BY(mu_);
  std::map<DomainId, StockOfDomain> stock_ HP_GUARDED_BY(mu_);
  std::map<LeaseId, std::vector<SlotId>> bare_ HP_GUARDED_BY(mu_);
  // Charged, and without pages: of all records with bare_for, but for those
  // that are Populating.
  PageCount bare_pages_ HP_GUARDED_BY(mu_);
  std::deque<SlotId> retiring_ HP_GUARDED_BY(mu_);
  bool build_next_ HP_GUARDED_BY(mu_) = false;  // pages came free just now
  std::deque<SlotId> dirty_ HP_GUARDED_BY(mu_);
  std::deque<SlotId> let_go_ HP_GUARDED_BY(mu_);
  // Granted extents to be prepared, or being so; and those not handed out yet.
  absl::flat_hash_map<SlotId, Preparation> preparations_ HP_GUARDED_BY(mu_);
  std::deque<SlotId> to_prepare_ HP_GUARDED_BY(mu_);
  std::list<VerifyPass> passes_ HP_GUARDED_BY(mu_);
  std::set<ExtentId> recount_ HP_GUARDED_BY(mu_);  // their pages, when there is time
  // One was handed out since other work could be taken: who punches pages without
  // end does not keep stewards from that.
  bool counted_ HP_GUARDED_BY(mu_) = false;
  bool splitting_ HP_GUARDED_BY(mu_) = false;  // between the watermarks
  PageCount gone_ HP_GUARDED_BY(mu_);
  Bytes split_ HP_GUARDED_BY(mu_);
  // Pages that holders took back: beyond the target, if it must be.
  PageCount regained_ HP_GUARDED_BY(mu_);
  Bytes sample_ HP_GUARDED_BY(mu_);  // still to be looked at
  // Where the next sample begins.
  SlotId sample_slot_ HP_GUARDED_BY(mu_);
  Bytes sample_offset_ HP_GUARDED_BY(mu_);
  // Returning extents, and held ones of MEMORY leases, by when to look.
  std::set<std::pair<absl::Time, SlotId>> looks_ HP_GUARDED_BY(mu_);
  std::list<Demand> queue_ HP_GUARDED_BY(mu_);  // by sequence
  ShapeCounts populating_ HP_GUARDED_BY(mu_);
  ShapeLearner learner_ HP_GUARDED_BY(mu_);

  std::array<PageCount, kExtentStates> pages_by_state_ HP_GUARDED_BY(mu_) = {};
  PageCount charged_ HP_GUARDED_BY(mu_);
  PageCount limbo_ HP_GUARDED_BY(mu_);
  // Pages of the kernel's that are neither free nor ours, nor in limbo.
  PageCount others_ HP_GUARDED_BY(mu_);
  std::optional<sys::KernelCounters> kernel_ HP_GUARDED_BY(mu_);
  // No build before this time after one found no pages.
  absl::Time build_after_ HP_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Duration build_backoff_ HP_GUARDED_BY(mu_) = absl::ZeroDuration();
  // The largest shape to fill with after a larger build found too few pages.
  std::optional<PageCount> at_most_ HP_GUARDED_BY(mu_);
  // Memory was given back since the kernel's counters were read.
  bool kernel_is_stale_ HP_GUARDED_BY(mu_) = false;
  std::string shortfall_ HP_GUARDED_BY(mu_);  // why the last build failed
  bool filling_ HP_GUARDED_BY(mu_) = true;
  PageCount leased_high_water_ HP_GUARDED_BY(mu_);
  uint64_t grants_ HP_GUARDED_BY(mu_) = 0;
  uint64_t hits_ HP_GUARDED_BY(mu_) = 0;
  uint64_t retired_ HP_GUARDED_BY(mu_) = 0;
  uint64_t cleared_ HP_GUARDED_BY(mu_) = 0;
  Bytes verified_ HP_GUARDED_BY(mu_);
  uint64_t stray_ HP_GUARDED_BY(mu_) = 0;
  Bytes filled_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_POOL_POOL_H_
