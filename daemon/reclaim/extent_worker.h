// Does what a pool asks for: executes work items, decides nothing.
#ifndef HUGEPOOL_DAEMON_RECLAIM_EXTENT_WORKER_H_
#define HUGEPOOL_DAEMON_RECLAIM_EXTENT_WORKER_H_

#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/clear/engine.h"
#include "daemon/extent/extent_files.h"
#include "daemon/pool/pool.h"
#include "daemon/reclaim/holder_news.h"
#include "daemon/sys/fd_vault.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool {

// No thread of its own: stewards call it, and so do op-sequence tests. One
// instance a steward; not thread-safe, but an item may be executed while another
// extent's is in the engine, on the same thread. All system calls are made with no lock
// held.
class ExtentWorker {
 public:
  struct Deps {
    sys::HugeMemory* memory;
    sys::HolderWatch* watch;
    sys::FdVault* vault;
    ExtentFiles* files;
    HolderNews* news;
    // Everything is background to it until the steward says Hurry().
    Engine* engine;
    // Keep extents of whole GiBs mapped, so that holders can share their page
    // tables.
    bool share_page_tables = true;
  };
  struct Result {
    WorkOutcome outcome = WorkOutcome::kDone;
    std::string why;     // for people, when not done
    uint64_t stray = 0;  // verify: bytes that were not zero
    // Split, and probes: pages that are there, where they were counted.
    std::optional<PageCount> there;
  };

  explicit ExtentWorker(const Deps& deps) : deps_(deps) {}

  Result Execute(Pool& pool, const WorkItem& item);

 private:
  Result Build(Pool& pool, const WorkItem& item);
  absl::Status Make(Pool& pool, const WorkItem& item);
  absl::Status Finish(Pool& pool, const WorkItem& item, sys::HugeFile& file);
  Result Probe(const WorkItem& item);
  Result Clear(const WorkItem& item);
  Result Retire(Pool& pool, const WorkItem& item);
  Result LetGo(Pool& pool, const WorkItem& item);
  Result Copy(const WorkItem& item);
  Result Verify(const WorkItem& item);
  Result Split(const WorkItem& item);
  static std::optional<PageCount> CountPages(sys::HugeFile& file,
                                             const WorkItem& item);
  bool KeepsMapping(const sys::HugeFile& file) const;
  // Every page is there, and on its node.
  absl::Status CheckWhole(sys::HugeFile& file, const WorkItem& item) const;
  absl::Status CheckNodes(sys::HugeFile& file, NodeId node) const;
  void PunchALiveOne(const WorkItem& item);

  const Deps deps_;
  // Inodes of extents that were let go, by slot: their files are closed.
  absl::flat_hash_map<SlotId, sys::InodeId> let_go_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_EXTENT_WORKER_H_
