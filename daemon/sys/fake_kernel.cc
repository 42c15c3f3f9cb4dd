// The machine, its pages and descriptions. The daemon's system calls stand in
// fake_kernel_calls.cc, the holders' in fake_kernel_holders.cc.
#include "daemon/sys/fake_kernel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "absl/strings/str_cat.h"

namespace hugepool::sys {
namespace {

absl::Status NoPool(NodeId node, PageSize size) {
  return absl::NotFoundError(
      absl::StrCat("node ", node.value(), " has no pages of ", ToString(size)));
}

}  // namespace

FakeKernel::FakeKernel()
    : token_file_(memfd_create("fake-kernel-tokens", MFD_CLOEXEC)) {}
FakeKernel::~FakeKernel() = default;

// ---- The machine ---------------------------------------------------------

void FakeKernel::AddPages(NodeId node, PageSize size, PageCount pages) {
  MutexLock lock(&mu_);
  Pool& pool = pools_[{node, size}];
  pool.total += pages.value();
  pool.free += pages.value();
}

std::vector<PageSize> FakeKernel::PageSizes() const {
  MutexLock lock(&mu_);
  std::set<PageSize, std::greater<>> sizes;
  for (const auto& [key, pool] : pools_) sizes.insert(key.second);
  return {sizes.begin(), sizes.end()};
}

std::vector<NodeId> FakeKernel::Nodes(PageSize size) const {
  MutexLock lock(&mu_);
  std::vector<NodeId> nodes;
  for (const auto& [key, pool] : pools_) {
    if (key.second == size) nodes.push_back(key.first);
  }
  return nodes;
}

absl::StatusOr<KernelCounters> FakeKernel::Counters(NodeId node,
                                                    PageSize size) {
  MutexLock lock(&mu_);
  SweepAll();
  const auto it = pools_.find({node, size});
  if (it == pools_.end()) return NoPool(node, size);
  return KernelCounters{.total = PageCount(it->second.total),
                        .free = PageCount(it->second.free),
                        .surplus = PageCount(it->second.surplus)};
}

absl::StatusOr<PageCount> FakeKernel::SetTotal(NodeId node, PageSize size,
                                               PageCount pages) {
  MutexLock lock(&mu_);
  SweepAll();
  const auto it = pools_.find({node, size});
  if (it == pools_.end()) return NoPool(node, size);
  Pool& pool = it->second;
  const uint64_t want = pages.value();
  uint64_t persistent = pool.total - pool.surplus;
  if (want >= persistent) {
    const uint64_t adopted = std::min(pool.surplus, want - persistent);
    pool.surplus -= adopted;
    persistent += adopted;
    const uint64_t room = pool.limit > pool.total ? pool.limit - pool.total : 0;
    const uint64_t fresh = std::min(room, want - persistent);
    pool.total += fresh;
    pool.free += fresh;
  } else {
    const uint64_t taken = std::min(pool.free, persistent - want);
    pool.total -= taken;
    pool.free -= taken;
    pool.surplus += persistent - taken - want;
  }
  return PageCount(pool.total);
}

void FakeKernel::SetLimit(NodeId node, PageSize size, PageCount pages) {
  MutexLock lock(&mu_);
  pools_[{node, size}].limit = pages.value();
}

PageCount FakeKernel::TakeOutside(NodeId node, PageSize size, PageCount pages) {
  MutexLock lock(&mu_);
  Pool& pool = pools_[{node, size}];
  const uint64_t n = std::min(pool.free, pages.value());
  pool.free -= n;
  pool.outside += n;
  return PageCount(n);
}

PageCount FakeKernel::ReturnOutside(NodeId node, PageSize size,
                                    PageCount pages) {
  MutexLock lock(&mu_);
  Pool& pool = pools_[{node, size}];
  const uint64_t n = std::min(pool.outside, pages.value());
  pool.outside -= n;
  for (uint64_t i = 0; i < n; ++i) ReturnToPool(node, size);
  return PageCount(n);
}

// ---- Failures ------------------------------------------------------------

void FakeKernel::FailNext(Op op, int error_number, uint64_t after,
                          uint64_t times) {
  MutexLock lock(&mu_);
  failures_[op] = Failure{error_number, after, times};
}

void FakeKernel::FailNextPopulateAfter(PageCount pages) {
  // What MADV_POPULATE_WRITE says when there is no page (K3).
  FailNext(Op::kPopulate, EFAULT, pages.value());
}

void FakeKernel::ProbeUnknown(uint64_t times) {
  MutexLock lock(&mu_);
  unknown_probes_ = times;
}

int FakeKernel::TakeFailure(Op op) {
  const auto it = failures_.find(op);
  if (it == failures_.end()) return 0;
  if (it->second.after > 0) {
    --it->second.after;
    return 0;
  }
  const int error_number = it->second.error_number;
  if (--it->second.times == 0) failures_.erase(it);
  return error_number;
}

// ---- Pages ---------------------------------------------------------------

bool FakeKernel::AllocatePage(Inode& inode, uint64_t page, NodeId node) {
  const auto it = pools_.find({node, inode.page_size});
  if (it == pools_.end() || it->second.free == 0) return false;
  --it->second.free;
  inode.pages[page] = Page{.present = true, .node = node};
  ++inode.present;
  return true;
}

bool FakeKernel::AllocateAnywhere(Inode& inode, uint64_t page) {
  for (const auto& [key, pool] : pools_) {
    if (key.second == inode.page_size && pool.free > 0) {
      return AllocatePage(inode, page, key.first);
    }
  }
  return false;
}

void FakeKernel::ReturnToPool(NodeId node, PageSize size) {
  Pool& pool = pools_[{node, size}];
  if (pool.surplus > 0) {  // a surplus page leaves with its last user
    --pool.surplus;
    --pool.total;
  } else {
    ++pool.free;
  }
}

void FakeKernel::FreePage(uint64_t id, Inode& inode, uint64_t page) {
  Page& p = inode.pages[page];
  if (!p.present) return;
  inode.pieces.erase(page);
  --inode.present;
  if (p.pinned) {
    for (auto& [frame, pin] : pins_) {
      if (pin.inode == id && pin.page == page) {
        pin.inode = 0;
        pin.tag = p.tag;
      }
    }
  } else {
    ReturnToPool(p.node, inode.page_size);
  }
  p = Page{};
}

void FakeKernel::StoreTag(Inode& inode, uint64_t page, uint8_t tag) {
  inode.pages[page].tag = tag;
  inode.pieces.erase(page);
}

void FakeKernel::Truncate(uint64_t id, Inode& inode, uint64_t pages) {
  for (uint64_t i = pages; i < inode.pages.size(); ++i) FreePage(id, inode, i);
  inode.pages.resize(pages);
  Emit(id, EventKind::kChanged);
}

// ---- Descriptions --------------------------------------------------------

FakeKernel::Inode& FakeKernel::InodeRef(Desc desc) {
  return inodes_.at(descs_.at(desc).inode);
}

FakeKernel::Desc FakeKernel::NewDescription(uint64_t inode, bool daemon) {
  const Desc desc = next_desc_++;
  Inode& i = inodes_.at(inode);
  if (i.leased_by != 0) i.leased_by = 0;  // an open breaks the lease
  descs_[desc] = Description{.inode = inode, .refs = 1, .daemon = daemon};
  i.descs.push_back(desc);
  Emit(inode, EventKind::kOpened);
  return desc;
}

void FakeKernel::Ref(Desc desc) {
  MutexLock lock(&mu_);
  ++descs_.at(desc).refs;
}

void FakeKernel::Unref(Desc desc) {
  MutexLock lock(&mu_);
  UnrefLocked(desc);
}

void FakeKernel::UnrefLocked(Desc desc) {
  Description& d = descs_.at(desc);
  if (--d.refs > 0) return;
  const uint64_t id = d.inode;
  descs_.erase(desc);
  tokens_.erase(desc);
  Inode& inode = inodes_.at(id);
  std::erase(inode.descs, desc);
  if (inode.leased_by == desc) inode.leased_by = 0;
  Emit(id, EventKind::kClosed);
  if (!inode.descs.empty()) return;
  for (uint64_t i = 0; i < inode.pages.size(); ++i) FreePage(id, inode, i);
  Emit(id, EventKind::kDeleted);
  inodes_.erase(id);
  for (auto& weak : queues_) {
    if (auto queue = weak.lock()) queue->watched_.erase(id);
  }
}

bool FakeKernel::TokenAlive(Desc desc) const {
  struct flock byte = {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(desc);
  byte.l_len = 1;
  return fcntl(token_file_.get(), F_OFD_GETLK, &byte) == 0 &&
         byte.l_type != F_UNLCK;
}

void FakeKernel::SweepAll() {
  const std::vector<Desc> tokens(tokens_.begin(), tokens_.end());
  for (const Desc desc : tokens) SweepToken(desc);
}

void FakeKernel::SweepInode(const Inode& inode) {
  if (tokens_.empty()) return;
  const std::vector<Desc> descs = inode.descs;
  for (const Desc desc : descs) SweepToken(desc);
}

void FakeKernel::SweepToken(Desc desc) {
  Description& d = descs_.at(desc);
  if (!d.token || TokenAlive(desc)) return;
  d.token = false;
  tokens_.erase(desc);
  UnrefLocked(desc);
}

bool FakeKernel::HeldByOthers(const Inode& inode) {
  SweepInode(inode);
  for (const Desc desc : inode.descs) {
    if (!descs_.at(desc).daemon) return true;
  }
  return false;
}

// ---- Recount -------------------------------------------------------------

PageCount FakeKernel::PagesInInodes(NodeId node, PageSize size) {
  MutexLock lock(&mu_);
  SweepAll();
  return PageCount(CountPages(node, size));
}

uint64_t FakeKernel::CountPages(NodeId node, PageSize size) const {
  uint64_t n = 0;
  for (const auto& [id, inode] : inodes_) {
    if (inode.page_size != size) continue;
    for (const Page& page : inode.pages) n += page.present && page.node == node;
  }
  return n;
}

PageCount FakeKernel::PinnedOrphans(NodeId node, PageSize size) const {
  MutexLock lock(&mu_);
  return PageCount(CountOrphans(node, size));
}

uint64_t FakeKernel::CountOrphans(NodeId node, PageSize size) const {
  uint64_t n = 0;
  for (const auto& [frame, pin] : pins_) {
    n += pin.inode == 0 && pin.node == node && pin.size == size;
  }
  return n;
}

PageCount FakeKernel::Outside(NodeId node, PageSize size) const {
  MutexLock lock(&mu_);
  const auto it = pools_.find({node, size});
  return PageCount(it == pools_.end() ? 0 : it->second.outside);
}

size_t FakeKernel::InodeCount() {
  MutexLock lock(&mu_);
  SweepAll();
  return inodes_.size();
}

size_t FakeKernel::HolderCount(InodeId inode) {
  MutexLock lock(&mu_);
  SweepAll();
  const auto it = inodes_.find(inode.value());
  if (it == inodes_.end()) return 0;
  size_t n = 0;
  for (const Desc desc : it->second.descs) n += !descs_.at(desc).daemon;
  return n;
}

absl::Status FakeKernel::CheckInvariants() const {
  MutexLock lock(&mu_);
  for (const auto& [key, pool] : pools_) {
    const auto [node, size] = key;
    const uint64_t used = CountPages(node, size);
    const uint64_t orphans = CountOrphans(node, size);
    if (pool.total != pool.free + used + orphans + pool.outside) {
      return absl::InternalError(absl::StrCat(
          "node ", node.value(), ", ", ToString(size), ": total ", pool.total,
          " is not free ", pool.free, " + in inodes ", used, " + orphans ",
          orphans, " + outside ", pool.outside));
    }
  }
  for (const auto& [id, inode] : inodes_) {
    uint64_t present = 0;
    for (const Page& page : inode.pages) present += page.present;
    if (present != inode.present || inode.descs.empty()) {
      return absl::InternalError(
          absl::StrCat("inode ", id, " has ", present, " pages, counted ",
                       inode.present, ", descriptions ", inode.descs.size()));
    }
    for (const Desc desc : inode.descs) {
      const auto it = descs_.find(desc);
      if (it == descs_.end() || it->second.refs == 0 ||
          it->second.inode != id) {
        return absl::InternalError(
            absl::StrCat("inode ", id, ": description ", desc, " is wrong"));
      }
    }
  }
  return absl::OkStatus();
}

FakeKernel::Violations FakeKernel::violations() const {
  MutexLock lock(&mu_);
  return violations_;
}

uint64_t FakeKernel::sigbus_past_end() const {
  MutexLock lock(&mu_);
  return sigbus_past_end_;
}

}  // namespace hugepool::sys
