// FakeKernel's calls of holders, and inotify.
#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>

#include "daemon/base/errno_status.h"
#include "daemon/sys/fake_holder.h"
#include "daemon/sys/fake_kernel.h"

namespace hugepool::sys {

// ---- Holders -------------------------------------------------------------

FakeHolder FakeKernel::AdoptHolder(UniqueFd fd, uid_t uid) {
  const off_t at = lseek(fd.get(), 0, SEEK_CUR);
  assert(at > 0 && "not a descriptor of OpenForHolder()");
  const Desc desc = static_cast<Desc>(at);
  {
    MutexLock lock(&mu_);
    fd.reset();
    Description& d = descs_.at(desc);
    assert(d.token && "adopted already, and no dup of it is left");
    if (TokenAlive(desc)) {
      ++d.refs;  // dups of the real descriptor go on counting
    } else {
      d.token = false;
      tokens_.erase(desc);
    }
  }
  return FakeHolder(this, desc, uid);
}

bool FakeKernel::MayOpen(InodeId inode, uid_t uid) const {
  MutexLock lock(&mu_);
  return MayOpenLocked(inode.value(), uid);
}

bool FakeKernel::MayOpenLocked(uint64_t inode, uid_t uid) const {
  const auto it = inodes_.find(inode);
  if (it == inodes_.end()) return false;
  if (uid == 0) return true;
  const mode_t wanted = uid == it->second.uid ? 0600 : 0006;
  return (it->second.mode & wanted) == wanted;
}

std::optional<FakeHolder> FakeKernel::OpenByPath(InodeId inode, uid_t uid) {
  if (!MayOpen(inode, uid)) return std::nullopt;
  return FinishOpen(inode, uid);
}

std::optional<FakeHolder> FakeKernel::FinishOpen(InodeId inode, uid_t uid) {
  Desc desc = 0;
  {
    MutexLock lock(&mu_);
    if (!inodes_.contains(inode.value())) return std::nullopt;
    desc = NewDescription(inode.value(), /*daemon=*/false);
  }
  return FakeHolder(this, desc, uid);
}

FakeAccess FakeKernel::Access(Desc desc, uint64_t page,
                              std::optional<uint8_t> store, uint8_t* load) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  if (page >= inode.pages.size()) {
    ++sigbus_past_end_;
    return FakeAccess::kSigbusPastEnd;
  }
  if (!inode.pages[page].present && !AllocateAnywhere(inode, page)) {
    ++violations_.sigbus_no_page;
    return FakeAccess::kSigbusNoPage;
  }
  if (store.has_value()) StoreTag(inode, page, *store);
  if (load != nullptr) *load = inode.pages[page].tag;
  return FakeAccess::kOk;
}

bool FakeKernel::HolderPunch(Desc desc, uint64_t page) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  if (inode.seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) return false;
  const uint64_t id = descs_.at(desc).inode;
  if (page < inode.pages.size()) FreePage(id, inode, page);
  Emit(id, EventKind::kChanged);
  return true;
}

void FakeKernel::HolderGivesUp(Desc desc, uint64_t page) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  if (page < inode.pages.size()) inode.pages[page].given_up = true;
}

bool FakeKernel::HolderTruncate(Desc desc, uint64_t pages) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  const uint64_t now = inode.pages.size();
  if (pages > now && (inode.seals & F_SEAL_GROW)) return false;
  if (pages < now && (inode.seals & F_SEAL_SHRINK)) return false;
  Truncate(descs_.at(desc).inode, inode, pages);
  return true;
}

bool FakeKernel::HolderChmod(Desc desc, uid_t uid, mode_t mode) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  if (uid != 0 && uid != inode.uid) return false;
  inode.mode = mode & 07777;
  Emit(descs_.at(desc).inode, EventKind::kChanged);
  return true;
}

bool FakeKernel::HolderAddSeals(Desc desc, int seals) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  if (inode.seals & F_SEAL_SEAL) return false;
  inode.seals |= seals;
  return true;
}

FakeKernel::Frame FakeKernel::PinPage(Desc desc, uint64_t page) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  const uint64_t id = descs_.at(desc).inode;
  if (page >= inode.pages.size()) return 0;
  if (!inode.pages[page].present && !AllocateAnywhere(inode, page)) return 0;
  Page& p = inode.pages[page];
  if (p.pinned) {
    for (auto& [frame, pin] : pins_) {
      if (pin.inode == id && pin.page == page) {
        ++pin.pins;
        return frame;
      }
    }
  }
  p.pinned = true;
  const Frame frame = next_frame_++;
  pins_[frame] = PinnedFrame{.inode = id,
                             .page = page,
                             .pins = 1,
                             .node = p.node,
                             .size = inode.page_size};
  return frame;
}

void FakeKernel::Unpin(Frame frame) {
  MutexLock lock(&mu_);
  PinnedFrame& pin = pins_.at(frame);
  if (--pin.pins > 0) return;
  if (pin.inode == 0) {
    ReturnToPool(pin.node, pin.size);
  } else {
    inodes_.at(pin.inode).pages[pin.page].pinned = false;
  }
  pins_.erase(frame);
}

uint8_t FakeKernel::ReadFrame(Frame frame) const {
  MutexLock lock(&mu_);
  const PinnedFrame& pin = pins_.at(frame);
  return pin.inode == 0 ? pin.tag : inodes_.at(pin.inode).pages[pin.page].tag;
}

void FakeKernel::WriteFrame(Frame frame, uint8_t tag) {
  MutexLock lock(&mu_);
  PinnedFrame& pin = pins_.at(frame);
  if (pin.inode == 0) {
    pin.tag = tag;
  } else {
    StoreTag(inodes_.at(pin.inode), pin.page, tag);
  }
}

// ---- inotify -------------------------------------------------------------

std::shared_ptr<FakeKernel::Queue> FakeKernel::NewQueue() {
  MutexLock lock(&mu_);
  auto queue = std::make_shared<Queue>();
  queues_.push_back(queue);
  return queue;
}

absl::Status FakeKernel::Watch(Queue& queue, InodeId inode) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kWatch)) {
    return ErrnoToStatus(e, "inotify_add_watch");
  }
  if (!inodes_.contains(inode.value())) {
    return ErrnoToStatus(ENOENT, "inotify_add_watch");
  }
  queue.watched_.insert(inode.value());
  return absl::OkStatus();
}

void FakeKernel::Unwatch(Queue& queue, InodeId inode) {
  MutexLock lock(&mu_);
  queue.watched_.erase(inode.value());
}

void FakeKernel::Emit(uint64_t inode, EventKind kind) {
  for (auto& weak : queues_) {
    const auto queue = weak.lock();
    if (queue == nullptr || !queue->watched_.contains(inode)) continue;
    const Queue::Unread event{inode, kind};
    // inotify merges an event with an equal one that is the last unread.
    if (!queue->unread_.empty() && queue->unread_.back() == event) continue;
    queue->unread_.push_back(event);
  }
}

std::vector<HolderWatch::Event> FakeKernel::ReadQueue(Queue& queue) {
  MutexLock lock(&mu_);
  SweepAll();
  std::vector<HolderWatch::Event> events;
  if (queue.overflow_) events.push_back({.overflow = true});
  queue.overflow_ = false;
  for (const Queue::Unread& unread : queue.unread_) {
    events.push_back({.inode = InodeId(unread.inode),
                      .opened = unread.kind == EventKind::kOpened,
                      .closed = unread.kind == EventKind::kClosed,
                      .changed = unread.kind == EventKind::kChanged,
                      .deleted = unread.kind == EventKind::kDeleted});
  }
  queue.unread_.clear();
  return events;
}

void FakeKernel::OverflowQueue(Queue& queue) {
  MutexLock lock(&mu_);
  queue.unread_.clear();
  queue.overflow_ = true;
}

}  // namespace hugepool::sys
