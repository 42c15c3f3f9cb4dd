#include "daemon/reclaim/extent_worker.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/plant.h"
#include "daemon/reclaim/counted_file.h"

namespace hugepool {
namespace {

ExtentWorker::Result Failed(const absl::Status& status) {
  const bool no_pages = absl::IsResourceExhausted(status);
  return {no_pages ? WorkOutcome::kNoPages : WorkOutcome::kFailed,
          std::string(status.message())};
}

// Extents of whole GiBs stay mapped (KeepsMapping).
absl::Status EnsureMapped(sys::HugeFile& file, NodeId node) {
  return file.mapped() ? absl::OkStatus() : file.Map(node);
}

std::string VaultName(ExtentId id) {
  return absl::StrCat("extent-", id.value());
}

}  // namespace

ExtentWorker::Result ExtentWorker::Execute(Pool& pool, const WorkItem& item) {
  if (Planted(Defect::kPunchLive)) PunchALiveOne(item);
  switch (item.kind) {
    case WorkKind::kBuild:
      return Build(pool, item);
    case WorkKind::kProbe:
      return Probe(item);
    case WorkKind::kClear:
      return Clear(item);
    case WorkKind::kRetire:
      return Retire(pool, item);
    case WorkKind::kLetGo:
      return LetGo(pool, item);
    case WorkKind::kCopy:
      return Copy(item);
    case WorkKind::kVerify:
      return Verify(item);
    case WorkKind::kSplit:
      return Split(item);
  }
  return {WorkOutcome::kFailed, "unknown work"};
}

bool ExtentWorker::KeepsMapping(const sys::HugeFile& file) const {
  return deps_.share_page_tables && file.size().value() % GiB(1).value() == 0;
}

absl::Status ExtentWorker::CheckNodes(sys::HugeFile& file, NodeId node) const {
  HP_ASSIGN_OR_RETURN(std::vector<NodeId> nodes, file.PageNodes());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] != node) {
      return absl::FailedPreconditionError(
          absl::StrCat("page ", i, " is on node ", nodes[i].value(),
                       " instead of node ", node.value()));
    }
  }
  return absl::OkStatus();
}

// --- Build ------------------------------------------------------------------

ExtentWorker::Result ExtentWorker::Build(Pool& pool, const WorkItem& item) {
  absl::Status status =
      item.from.value() == 0 ? Make(pool, item) : absl::OkStatus();
  sys::HugeFile* file = deps_.files->Get(item.slot);
  if (status.ok()) status = Finish(pool, item, *file);
  if (!status.ok()) return Failed(status);
  return {};
}

// A new file, watched before anybody else can know of it.
absl::Status ExtentWorker::Make(Pool& pool, const WorkItem& item) {
  HP_ASSIGN_OR_RETURN(
      std::unique_ptr<sys::HugeFile> made,
      deps_.memory->Create(item.page_size, item.pages, item.node));
  sys::HugeFile& file = deps_.files->Put(item.slot, std::move(made));
  pool.SetInode(item, file.inode().value());
  HP_RETURN_IF_ERROR(
      Annotate(deps_.watch->Add(file),
               "cannot watch the extent (raise fs.inotify.max_user_watches?)"));
  deps_.news->Add(file.inode(), &pool, pool.IdOf(item));
  return deps_.vault->Store(VaultName(pool.IdOf(item)), file.fd());
}

// Policy, then pages, then the proof (N12).
absl::Status ExtentWorker::Finish(Pool& pool, const WorkItem& item,
                                  sys::HugeFile& file) {
  const Bytes size = item.page_size.Of(item.pages);
  if (file.size() < size) {
    file.Unmap();
    HP_RETURN_IF_ERROR(file.Grow(size));
  }
  // This also has the kernel set its pages aside.
  HP_RETURN_IF_ERROR(file.Map(item.node));
  if (item.bare) {
    file.Unmap();
    return absl::OkStatus();
  }
  CountedFile counted(file, [&pool, &item](Bytes populated) {
    pool.NoteMade(item.page_size.Floor(populated));
  });
  HP_RETURN_IF_ERROR(deps_.engine->Populate(
      counted, {item.page_size.Of(item.from), size, item.hot},
      Pace::kBackground));
  HP_RETURN_IF_ERROR(CheckWhole(file, item));
  if (!KeepsMapping(file)) file.Unmap();
  return absl::OkStatus();
}

absl::Status ExtentWorker::CheckWhole(sys::HugeFile& file,
                                      const WorkItem& item) const {
  HP_RETURN_IF_ERROR(CheckNodes(file, item.node));
  const Bytes size = item.page_size.Of(item.pages);
  HP_ASSIGN_OR_RETURN(sys::FileFacts facts, file.Facts());
  if (facts.allocated != size || facts.size != size) {
    return absl::InternalError(
        absl::StrCat("populated ", ToString(facts.allocated), " of ",
                     ToString(size), ", file size ", ToString(facts.size)));
  }
  return absl::OkStatus();
}

// --- Return -----------------------------------------------------------------

// In the order that docs/design.md argues: inode back, facts, probe, then what
// the holder may have done to the file.
// While the lease lives, the inode is taken back only when a first probe says
// that nobody is there: it may be the holder's to open again (`reopenable`).
ExtentWorker::Result ExtentWorker::Probe(const WorkItem& item) {
  sys::HugeFile* file = deps_.files->Get(item.slot);
  if (file == nullptr) {  // let go: the end of the inode is the only news
    auto it = let_go_.find(item.slot);
    const bool gone = it == let_go_.end() || deps_.news->Gone(it->second);
    return {gone ? WorkOutcome::kDone : WorkOutcome::kBusy, ""};
  }
  if (item.revoke) {
    const absl::Status taken = file->GiveBack();
    return taken.ok() ? Result{} : Failed(taken);
  }
  sys::HolderAnswer answer = sys::HolderAnswer::kFree;
  if (item.live) answer = file->Probe();
  if (answer == sys::HolderAnswer::kFree) {
    const absl::Status back = file->TakeInodeBack();
    if (!back.ok()) return Failed(back);
    answer = file->Probe();
  }
  if (answer != sys::HolderAnswer::kFree) {
    Result held{answer == sys::HolderAnswer::kBusy ? WorkOutcome::kBusy
                                                   : WorkOutcome::kUnknown,
                ""};
    // Who has it may have touched pages that it gave up.
    if (item.gone.value() > 0) held.there = CountPages(*file, item);
    return held;
  }
  const Bytes size = item.page_size.Of(item.pages);
  const Bytes allocated = size - item.page_size.Of(item.gone);
  absl::StatusOr<sys::FileFacts> facts = file->Facts();
  if (!facts.ok()) return Failed(facts.status());
  if (facts->size != size || facts->allocated != allocated) {
    Result damaged{
        WorkOutcome::kDamaged,
        absl::StrCat("came back with ", ToString(facts->allocated), " in ",
                     ToString(facts->size), " instead of ",
                     ToString(allocated), " in ", ToString(size))};
    damaged.there = item.page_size.Floor(facts->allocated);
    return damaged;
  }
  if (!item.for_reuse) return {};
  // A holder can punch a page and have it again from another node.
  absl::Status whole = EnsureMapped(*file, item.node);
  if (whole.ok()) whole = CheckNodes(*file, item.node);
  if (!whole.ok()) {
    return {WorkOutcome::kDamaged, std::string(whole.message())};
  }
  return {};
}

ExtentWorker::Result ExtentWorker::Clear(const WorkItem& item) {
  sys::HugeFile& file = *deps_.files->Get(item.slot);
  const absl::Status mapped = EnsureMapped(file, item.node);
  if (!mapped.ok()) return Failed(mapped);
  Bytes end = item.page_size.Of(item.pages);
  if (Planted(Defect::kSkipClear)) end = Bytes(0);
  if (Planted(Defect::kEarlyClean)) end -= item.page_size.bytes();
  if (end > Bytes(0)) {
    const absl::Status zeroed =
        deps_.engine->Zero(file, {Bytes(0), end, item.hot},
                            Pace::kBackground);
    if (!zeroed.ok()) return Failed(zeroed);
  }
  if (!file.StillArmed()) {
    return {WorkOutcome::kFailed, "somebody opened it while it was cleared"};
  }
  if (!KeepsMapping(file)) file.Unmap();
  return {};
}

ExtentWorker::Result ExtentWorker::Retire(Pool& pool, const WorkItem& item) {
  std::unique_ptr<sys::HugeFile> file = deps_.files->Remove(item.slot);
  if (auto it = let_go_.find(item.slot); it != let_go_.end()) {
    deps_.news->Remove(it->second);
    deps_.watch->Remove(it->second);
    let_go_.erase(it);
  }
  if (file == nullptr) return {};
  deps_.news->Remove(file->inode());
  deps_.watch->Remove(file->inode());
  // The vault's dup would keep the memory alive.
  (void)deps_.vault->Remove(VaultName(pool.IdOf(item)));
  const absl::Status given = file->GiveBack();
  // Closing gives the pages back as well, only later where somebody still maps
  // them; nobody does, or we would not be here.
  return {WorkOutcome::kDone, std::string(given.message())};
}

ExtentWorker::Result ExtentWorker::LetGo(Pool& pool, const WorkItem& item) {
  std::unique_ptr<sys::HugeFile> file = deps_.files->Remove(item.slot);
  if (file == nullptr) return {};
  let_go_[item.slot] = file->inode();
  // The vault's dup would keep the inode alive when its holders are gone.
  (void)deps_.vault->Remove(VaultName(pool.IdOf(item)));
  return {};
}

// --- Before a grant, and now and then ------------------------------------------

ExtentWorker::Result ExtentWorker::Copy(const WorkItem& item) {
  sys::HugeFile& file = *deps_.files->Get(item.slot);
  std::vector<CopyPart> parts;
  for (const CopyPiece& p : item.copy) {
    sys::HugeFile* const source = deps_.files->Get(p.source);
    if (source == nullptr) {
      return {WorkOutcome::kFailed, "the descriptor of the source is let go"};
    }
    parts.push_back({source, p.from, p.offset, p.length});
  }
  absl::Status copied = EnsureMapped(file, item.node);
  if (copied.ok()) {
    copied = item.bare
                 ? deps_.engine->Fill(file, parts, item.hot, Pace::kUrgent)
                 : deps_.engine->Copy(file, parts, item.hot, Pace::kUrgent);
  }
  if (copied.ok() && item.bare) copied = CheckWhole(file, item);
  if (!KeepsMapping(file)) file.Unmap();
  return copied.ok() ? Result{} : Failed(copied);
}

// Through the mapping: nobody else can reach the memory.
ExtentWorker::Result ExtentWorker::Verify(const WorkItem& item) {
  sys::HugeFile& file = *deps_.files->Get(item.slot);
  const absl::Status mapped = EnsureMapped(file, item.node);
  if (!mapped.ok()) return Failed(mapped);
  const auto stray = deps_.engine->Verify(
      file, {item.verify_from, item.verify_to, item.hot},
      item.urgent ? Pace::kUrgent : Pace::kBackground);
  if (!KeepsMapping(file)) file.Unmap();
  if (!stray.ok()) return Failed(stray.status());
  if (stray->count == 0) return {};
  return {WorkOutcome::kDamaged,
          absl::StrCat(stray->count, " bytes are not zero, the first at ",
                       stray->first.value()),
          stray->count};
}

// The descriptor alone is used: our mapping, where there is one, is of memory that
// somebody holds.
ExtentWorker::Result ExtentWorker::Split(const WorkItem& item) {
  sys::HugeFile& file = *deps_.files->Get(item.slot);
  Result result;
  for (const ReleasedPages::Run& run : item.runs) {
    const absl::Status punched = file.Punch(item.page_size.Of(run.first),
                                            item.page_size.Of(run.count));
    if (!punched.ok()) result = Failed(punched);
  }
  result.there = CountPages(file, item);
  return result;
}

// nullopt: it cannot be told.
std::optional<PageCount> ExtentWorker::CountPages(sys::HugeFile& file,
                                                  const WorkItem& item) {
  const absl::StatusOr<sys::FileFacts> facts = file.Facts();
  if (!facts.ok()) return std::nullopt;
  return item.page_size.Floor(facts->allocated);
}

// The planted defect: takes the first page from some living lease of the node.
void ExtentWorker::PunchALiveOne(const WorkItem& item) {
  for (uint32_t i = 1; i <= deps_.files->capacity(); ++i) {
    sys::HugeFile* file = deps_.files->Get(SlotId(i));
    if (file == nullptr || SlotId(i) == item.slot) continue;
    if (file->Probe() != sys::HolderAnswer::kBusy) continue;
    (void)file->Punch(Bytes(0), file->page_size().bytes());
    return;
  }
}

}  // namespace hugepool
