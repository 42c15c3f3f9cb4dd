// A model of the kernel's huge pages, for tests of everything above `sys`.
//
// What it models, and from which measured fact:
//   counters per (node, page size) with surplus, and pages that others take;
//   inodes with, per page, present or hole, its node and one tag byte that
//     stands for its content (0: all zero; kMixed: several), size, seals, mode,
//     owner;
//   open descriptions, counted: fds, mappings and forked mappings refer to one
//     description, which ends with the last of them; then the inode, and its
//     pages, with the last description;
//   leases (F_SETLEASE): an open by anybody breaks an armed one;
//   pins: a pinned page that its inode gives back stays out of the free list,
//     readable and writable by its pinner, until it is unpinned;
//   inotify: events of watched inodes, identical neighbours merged, overflow.
//
// It has no clock, no thread and no randomness: the same calls give the same
// answers. Thread-safe (one mutex inside). It must outlive all that was made
// from it.
#ifndef HUGEPOOL_DAEMON_SYS_FAKE_KERNEL_H_
#define HUGEPOOL_DAEMON_SYS_FAKE_KERNEL_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"
#include "daemon/sys/huge_memory.h"
#include "daemon/sys/topology.h"

namespace hugepool::sys {

class FakeHolder;

// What happened to a load or store of a process.
enum class FakeAccess {
  kOk,
  kSigbusNoPage,   // a hole, and the kernel had no page: what must never happen
  kSigbusPastEnd,  // beyond the size: what a revoked holder gets
  kNoAccess,       // neither mapped nor open
};

class FakeKernel {
 public:
  // Calls that a test can make fail.
  enum class Op {
    kCreate,     // memfd_create
    kGrow,       // ftruncate to more
    kPolicy,     // mbind, in Map()
    kMap,        // mmap
    kPopulate,   // counted in pages
    kZero,       // writing zeros: DATA_LOSS, whatever the number
    kFindStray,  // looking for stray bytes: the same
    kRead,       // pread of a source: the same
    kOpen,       // the open in OpenForHolder()
    kSeal,       // F_ADD_SEALS
    kChown,      // fchown
    kGiveBack,   // ftruncate(0)
    kPageNodes,  // move_pages
    kFacts,      // fstat
    kWatch,      // inotify_add_watch
  };
  using Desc = uint64_t;   // an open description; 0: none
  using Frame = uint64_t;  // a pinned page; 0: none

  static constexpr uid_t kDaemonUid = 900;
  static constexpr uid_t kHolderUid = 1000;
  // The tag of a page of which only a part was copied.
  static constexpr uint8_t kMixed = 0xFD;

  FakeKernel();
  ~FakeKernel();
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;

  // ---- The machine -------------------------------------------------------
  // A node has `pages` more pages of a size; makes the pool where it is new.
  void AddPages(NodeId node, PageSize size, PageCount pages);
  // Largest first.
  std::vector<PageSize> PageSizes() const;
  std::vector<NodeId> Nodes(PageSize size) const;
  absl::StatusOr<KernelCounters> Counters(NodeId node, PageSize size);
  // Writes nr_hugepages: takes free pages away, makes used ones surplus, adds
  // up to the limit. Returns what a read of the file would say then.
  absl::StatusOr<PageCount> SetTotal(NodeId node, PageSize size,
                                     PageCount pages);
  // How many pages the machine can have at all; no limit at first.
  void SetLimit(NodeId node, PageSize size, PageCount pages);
  // Another program takes free pages (as many as there are), or lets go.
  PageCount TakeOutside(NodeId node, PageSize size, PageCount pages);
  PageCount ReturnOutside(NodeId node, PageSize size, PageCount pages);

  // ---- Holders -----------------------------------------------------------
  // The process that received `fd` of OpenForHolder(). `fd` may be any dup of
  // it; it is closed, the model goes on with the description. Until then the
  // real descriptor counts: closing it without adopting ends the description.
  FakeHolder AdoptHolder(UniqueFd fd, uid_t uid = kHolderUid);
  // An open through /proc or an O_PATH descriptor, read-write. nullopt where
  // mode and owner refuse (EACCES) or the inode is gone. Breaks an armed lease.
  std::optional<FakeHolder> OpenByPath(InodeId inode, uid_t uid);
  // The same in two steps: an open that passed its permission check before the
  // daemon took the inode back and is completed after.
  bool MayOpen(InodeId inode, uid_t uid) const;
  std::optional<FakeHolder> FinishOpen(InodeId inode, uid_t uid);

  // ---- Failures ----------------------------------------------------------
  // The call of `op` after the next `after` ones fails with `error_number`,
  // once (`times`). For kPopulate, `after` counts pages.
  void FailNext(Op op, int error_number, uint64_t after = 0,
                uint64_t times = 1);
  void FailCreate(int error_number) { FailNext(Op::kCreate, error_number); }
  void FailSeal(int error_number) { FailNext(Op::kSeal, error_number); }
  void FailPolicy(int error_number) { FailNext(Op::kPolicy, error_number); }
  void FailNextPopulateAfter(PageCount pages);
  // The next `times` probes answer kUnknown.
  void ProbeUnknown(uint64_t times = 1);

  // ---- Recount -----------------------------------------------------------
  PageCount PagesInInodes(NodeId node, PageSize size);
  PageCount PinnedOrphans(NodeId node, PageSize size) const;
  PageCount Outside(NodeId node, PageSize size) const;
  size_t InodeCount();
  // Open descriptions of holders, after noticing descriptors that were closed.
  size_t HolderCount(InodeId inode);
  // total = free + pages in inodes + pinned orphans + outside, for each pool,
  // counted page by page; references add up. The first difference otherwise.
  absl::Status CheckInvariants() const;

  // ---- What must not happen ----------------------------------------------
  struct Violations {
    uint64_t sigbus_no_page = 0;      // a holder met a hole without a page
    uint64_t daemon_sigbus = 0;       // the daemon did, or went past the end
    uint64_t touched_while_held = 0;  // the daemon zeroed, populated, grew or
                                      // punched a file that somebody holds
    friend bool operator==(const Violations&, const Violations&) = default;
  };
  Violations violations() const;
  uint64_t sigbus_past_end() const;

  // ---- System calls: for the fakes that stand on this model ----------------
  absl::StatusOr<Desc> Create(PageSize size, PageCount pages);
  InodeId InodeOf(Desc desc) const;
  absl::Status Grow(Desc desc, Bytes size);
  // mmap and mbind: one more reference, taken by the mapping.
  absl::Status MapFor(Desc desc, NodeId node);
  absl::Status Populate(Desc desc, NodeId node, Bytes offset, Bytes length);
  absl::Status Zero(Desc desc, NodeId node, Bytes offset, Bytes length);
  absl::StatusOr<HugeFile::Stray> FindStray(Desc desc, NodeId node,
                                            Bytes offset, Bytes length);
  absl::Status Copy(Desc to, Bytes offset, Desc source, Bytes from,
                    Bytes length);
  // Bytes of another file, for FillPage().
  struct CopyFrom {
    Desc source = 0;
    Bytes from;
    Bytes offset;  // in the file that is filled
    Bytes length;
  };
  absl::Status FillPage(Desc to, NodeId node, Bytes offset,
                        const std::vector<CopyFrom>& parts);
  absl::StatusOr<std::vector<NodeId>> PageNodes(Desc desc);
  absl::StatusOr<UniqueFd> OpenToken(Desc desc);
  absl::Status Chown(Desc desc, uid_t uid, bool reset_mode);
  absl::Status AddSeals(Desc desc, int seals);
  absl::StatusOr<FileFacts> Facts(Desc desc);
  HolderAnswer SetLease(Desc desc);
  bool LeaseIntact(Desc desc);
  void UnsetLease(Desc desc);
  absl::Status GiveBack(Desc desc);
  absl::Status DaemonPunch(Desc desc, Bytes offset, Bytes length);
  absl::StatusOr<bool> AllZero(Desc desc);
  // One more or one fewer fd or mapping of a description.
  void Ref(Desc desc);
  void Unref(Desc desc);

  FakeAccess Access(Desc desc, uint64_t page, std::optional<uint8_t> store,
                    uint8_t* load);
  bool HolderPunch(Desc desc, uint64_t page);
  void HolderGivesUp(Desc desc, uint64_t page);
  bool HolderTruncate(Desc desc, uint64_t pages);
  bool HolderChmod(Desc desc, uid_t uid, mode_t mode);
  bool HolderAddSeals(Desc desc, int seals);
  Frame PinPage(Desc desc, uint64_t page);
  void Unpin(Frame frame);
  uint8_t ReadFrame(Frame frame) const;
  void WriteFrame(Frame frame, uint8_t tag);

  // One inotify descriptor.
  class Queue;
  std::shared_ptr<Queue> NewQueue();
  absl::Status Watch(Queue& queue, InodeId inode);
  void Unwatch(Queue& queue, InodeId inode);
  // Takes what is unread, oldest first.
  std::vector<HolderWatch::Event> ReadQueue(Queue& queue);
  // Unread events are lost; the reader learns only that.
  void OverflowQueue(Queue& queue);

 private:
  using PoolKey = std::pair<NodeId, PageSize>;
  struct Pool {
    uint64_t total = 0;  // with surplus
    uint64_t free = 0;
    uint64_t surplus = 0;
    uint64_t outside = 0;
    uint64_t limit = ~uint64_t{0};
  };
  struct Page {
    bool present = false;
    bool pinned = false;  // then pins_ has its frame
    bool given_up = false;  // its holder said so: the daemon may take it
    uint8_t tag = 0;
    uint8_t spare = 0;
    NodeId node;
  };
  // What a page shall be all over, and where it is by now: [from, to).
  struct Pieces {
    uint8_t tag = 0;
    std::map<uint64_t, uint64_t> done;
  };
  struct Inode {
    explicit Inode(PageSize size) : page_size(size) {}
    PageSize page_size;
    std::vector<Page> pages;
    uint64_t present = 0;
    mode_t mode = 0600;
    uid_t uid = kDaemonUid;
    int seals = 0;
    Desc leased_by = 0;
    std::vector<Desc> descs;
    // Pages that are being zeroed or copied in pieces.
    std::map<uint64_t, Pieces> pieces;
  };
  struct Description {
    uint64_t inode = 0;
    uint64_t refs = 0;
    bool token = false;  // one of the refs is a real descriptor
    bool daemon = false;
  };
  struct PinnedFrame {
    uint64_t inode = 0;  // 0: an orphan
    uint64_t page = 0;
    uint64_t pins = 0;
    NodeId node;
    PageSize size = k2M;
    uint8_t tag = 0;  // of an orphan
  };
  struct Failure {
    int error_number = 0;
    uint64_t after = 0;
    uint64_t times = 0;
  };

  enum class EventKind { kOpened, kClosed, kChanged, kDeleted };

  Inode& InodeRef(Desc desc) HP_REQUIRES(mu_);
  Desc NewDescription(uint64_t inode, bool daemon) HP_REQUIRES(mu_);
  void UnrefLocked(Desc desc) HP_REQUIRES(mu_);
  void Emit(uint64_t inode, EventKind kind) HP_REQUIRES(mu_);
  // 0, or the errno with which this call has to fail.
  int TakeFailure(Op op) HP_REQUIRES(mu_);
  absl::Status CopyLocked(Inode& inode, const CopyFrom& part) HP_REQUIRES(mu_);
  bool AllocatePage(Inode& inode, uint64_t page, NodeId node) HP_REQUIRES(mu_);
  bool AllocateAnywhere(Inode& inode, uint64_t page) HP_REQUIRES(mu_);
  void FreePage(uint64_t id, Inode& inode, uint64_t page) HP_REQUIRES(mu_);
  void ReturnToPool(NodeId node, PageSize size) HP_REQUIRES(mu_);
  void StoreTag(Inode& inode, uint64_t page, uint8_t tag) HP_REQUIRES(mu_);
  void Truncate(uint64_t id, Inode& inode, uint64_t pages) HP_REQUIRES(mu_);
  // [from, to) of a page has the content `tag` now; the whole page has it once
  // all of it was noted, and is a mixture (kMixed) until then.
  void NotePiece(Inode& inode, uint64_t page, uint64_t from, uint64_t to,
                 uint8_t tag) HP_REQUIRES(mu_);
  bool MayOpenLocked(uint64_t inode, uid_t uid) const HP_REQUIRES(mu_);
  bool HeldByOthers(const Inode& inode) HP_REQUIRES(mu_);
  uint64_t CountPages(NodeId node, PageSize size) const HP_REQUIRES(mu_);
  uint64_t CountOrphans(NodeId node, PageSize size) const HP_REQUIRES(mu_);
  // Ends descriptions whose real descriptor was closed.
  void SweepAll() HP_REQUIRES(mu_);
  void SweepInode(const Inode& inode) HP_REQUIRES(mu_);
  void SweepToken(Desc desc) HP_REQUIRES(mu_);
  bool TokenAlive(Desc desc) const HP_REQUIRES(mu_);

  mutable Mutex mu_;
  // All tokens are descriptions of this one empty file. A token's number is
  // its file offset; it holds an open-file-description lock on that byte,
  // which the real kernel drops with the last dup.
  const UniqueFd token_file_;
  std::map<PoolKey, Pool> pools_ HP_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, Inode> inodes_ HP_GUARDED_BY(mu_);
  std::unordered_map<Desc, Description> descs_ HP_GUARDED_BY(mu_);
  std::map<Frame, PinnedFrame> pins_ HP_GUARDED_BY(mu_);
  std::map<Op, Failure> failures_ HP_GUARDED_BY(mu_);
  std::set<Desc> tokens_ HP_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<Queue>> queues_ HP_GUARDED_BY(mu_);
  uint64_t unknown_probes_ HP_GUARDED_BY(mu_) = 0;
  uint64_t next_inode_ HP_GUARDED_BY(mu_) = 1;
  uint64_t next_desc_ HP_GUARDED_BY(mu_) = 1;
  uint64_t next_frame_ HP_GUARDED_BY(mu_) = 1;
  Violations violations_ HP_GUARDED_BY(mu_);
  uint64_t sigbus_past_end_ HP_GUARDED_BY(mu_) = 0;
};

// Guarded by the kernel's mutex.
class FakeKernel::Queue {
 private:
  friend class FakeKernel;
  struct Unread {
    uint64_t inode;
    EventKind kind;
    friend bool operator==(const Unread&, const Unread&) = default;
  };
  std::set<uint64_t> watched_;
  std::deque<Unread> unread_;
  bool overflow_ = false;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FAKE_KERNEL_H_
