// FakeKernel's system calls of the daemon.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/fake_kernel.h"

namespace hugepool::sys {
namespace {

absl::Status PopulateError(int error_number) {
  const std::string what = "MADV_POPULATE_WRITE";
  if (error_number == EFAULT) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": the node or the cgroup has no page"));
  }
  if (error_number == EHWPOISON) {
    return absl::DataLossError(absl::StrCat(what, ": poisoned memory"));
  }
  return ErrnoToStatus(error_number, what);
}

}  // namespace

absl::StatusOr<FakeKernel::Desc> FakeKernel::Create(PageSize size,
                                                    PageCount pages) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kCreate)) {
    return ErrnoToStatus(e, "memfd_create");
  }
  if (std::none_of(pools_.begin(), pools_.end(),
                   [&](const auto& p) { return p.first.second == size; })) {
    return ErrnoToStatus(ENODEV, "memfd_create");
  }
  const uint64_t id = next_inode_++;
  Inode& inode = inodes_.try_emplace(id, size).first->second;
  inode.pages.resize(pages.value());
  return NewDescription(id, /*daemon=*/true);
}

InodeId FakeKernel::InodeOf(Desc desc) const {
  MutexLock lock(&mu_);
  return InodeId(descs_.at(desc).inode);
}

absl::Status FakeKernel::Grow(Desc desc, Bytes size) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kGrow))
    return ErrnoToStatus(e, "ftruncate");
  Inode& inode = InodeRef(desc);
  const uint64_t pages = inode.page_size.Floor(size).value();
  if (pages < inode.pages.size() ||
      inode.page_size.Of(PageCount(pages)) != size) {
    return ErrnoToStatus(EINVAL, "ftruncate");
  }
  if (inode.seals & F_SEAL_GROW) return ErrnoToStatus(EPERM, "ftruncate");
  violations_.touched_while_held += HeldByOthers(inode);
  Truncate(descs_.at(desc).inode, inode, pages);
  return absl::OkStatus();
}

absl::Status FakeKernel::MapFor(Desc desc, NodeId node) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kMap)) return ErrnoToStatus(e, "mmap");
  const PageSize size = InodeRef(desc).page_size;
  if (const int e = TakeFailure(Op::kPolicy)) return ErrnoToStatus(e, "mbind");
  if (std::none_of(pools_.begin(), pools_.end(), [&](const auto& p) {
        return p.first == PoolKey(node, size);
      })) {
    return ErrnoToStatus(EINVAL, "mbind");
  }
  ++descs_.at(desc).refs;
  return absl::OkStatus();
}

absl::Status FakeKernel::Populate(Desc desc, NodeId node, Bytes offset,
                                  Bytes length) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  violations_.touched_while_held += HeldByOthers(inode);
  const uint64_t shift = inode.page_size.shift();
  const uint64_t end = inode.page_size.Ceil(offset + length)->value();
  for (uint64_t i = offset.value() >> shift; i < end; ++i) {
    if (i >= inode.pages.size()) return PopulateError(EFAULT);
    if (inode.pages[i].present) continue;
    if (const int e = TakeFailure(Op::kPopulate)) return PopulateError(e);
    if (!AllocatePage(inode, i, node)) return PopulateError(EFAULT);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeId>> FakeKernel::PageNodes(Desc desc) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kPageNodes)) {
    return ErrnoToStatus(e, "move_pages");
  }
  const Inode& inode = InodeRef(desc);
  if (inode.present != inode.pages.size()) {
    return absl::FailedPreconditionError("the file has holes");
  }
  std::vector<NodeId> nodes;
  nodes.reserve(inode.pages.size());
  for (const Page& page : inode.pages) nodes.push_back(page.node);
  return nodes;
}

absl::StatusOr<UniqueFd> FakeKernel::OpenToken(Desc desc) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kOpen)) return ErrnoToStatus(e, "open");
  UniqueFd fd(open(absl::StrCat("/proc/self/fd/", token_file_.get()).c_str(),
                   O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return ErrnoToStatus(errno, "open(token)");
  const Desc token = NewDescription(descs_.at(desc).inode, /*daemon=*/false);
  struct flock byte = {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(token);
  byte.l_len = 1;
  if (lseek(fd.get(), static_cast<off_t>(token), SEEK_SET) < 0 ||
      fcntl(fd.get(), F_OFD_SETLK, &byte) != 0) {
    const absl::Status status = ErrnoToStatus(errno, "fcntl(token)");
    UnrefLocked(token);
    return status;
  }
  descs_.at(token).token = true;
  tokens_.insert(token);
  return fd;
}

absl::Status FakeKernel::Chown(Desc desc, uid_t uid, bool reset_mode) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kChown)) return ErrnoToStatus(e, "fchown");
  Inode& inode = InodeRef(desc);
  inode.uid = uid;
  if (reset_mode) inode.mode = 0600;
  Emit(descs_.at(desc).inode, EventKind::kChanged);
  return absl::OkStatus();
}

absl::Status FakeKernel::AddSeals(Desc desc, int seals) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kSeal)) {
    return ErrnoToStatus(e, "fcntl(F_ADD_SEALS)");
  }
  Inode& inode = InodeRef(desc);
  if (inode.seals == seals) return absl::OkStatus();
  if (inode.seals & F_SEAL_SEAL) {
    return ErrnoToStatus(EPERM, "fcntl(F_ADD_SEALS)");
  }
  inode.seals |= seals;
  return absl::OkStatus();
}

absl::StatusOr<FileFacts> FakeKernel::Facts(Desc desc) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kFacts)) return ErrnoToStatus(e, "fstat");
  const Inode& inode = InodeRef(desc);
  return FileFacts{.inode = InodeId(descs_.at(desc).inode),
                   .size = inode.page_size.Of(PageCount(inode.pages.size())),
                   .allocated = inode.page_size.Of(PageCount(inode.present)),
                   .mode = inode.mode,
                   .uid = inode.uid,
                   .seals = inode.seals};
}

HolderAnswer FakeKernel::SetLease(Desc desc) {
  MutexLock lock(&mu_);
  if (unknown_probes_ > 0) {
    --unknown_probes_;
    return HolderAnswer::kUnknown;
  }
  Inode& inode = InodeRef(desc);
  SweepInode(inode);
  if (inode.descs.size() > 1) return HolderAnswer::kBusy;
  inode.leased_by = desc;
  return HolderAnswer::kFree;
}

bool FakeKernel::LeaseIntact(Desc desc) {
  MutexLock lock(&mu_);
  return InodeRef(desc).leased_by == desc;
}

void FakeKernel::UnsetLease(Desc desc) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  if (inode.leased_by == desc) inode.leased_by = 0;
}

absl::Status FakeKernel::GiveBack(Desc desc) {
  MutexLock lock(&mu_);
  if (const int e = TakeFailure(Op::kGiveBack)) {
    return ErrnoToStatus(e, "ftruncate(0)");
  }
  Inode& inode = InodeRef(desc);
  const uint64_t id = descs_.at(desc).inode;
  if (inode.seals & F_SEAL_SHRINK) {
    for (uint64_t i = 0; i < inode.pages.size(); ++i) FreePage(id, inode, i);
    Emit(id, EventKind::kChanged);
  } else {
    Truncate(id, inode, 0);
  }
  return absl::OkStatus();
}

absl::Status FakeKernel::DaemonPunch(Desc desc, Bytes offset, Bytes length) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(desc);
  const bool held = HeldByOthers(inode);
  const uint64_t id = descs_.at(desc).inode;
  const uint64_t shift = inode.page_size.shift();
  const uint64_t end = std::min<uint64_t>((offset + length).value() >> shift,
                                          inode.pages.size());
  for (uint64_t i = inode.page_size.Ceil(offset)->value(); i < end; ++i) {
    const Page& page = inode.pages[i];
    violations_.touched_while_held += held && page.present && !page.given_up;
    FreePage(id, inode, i);
  }
  Emit(id, EventKind::kChanged);
  return absl::OkStatus();
}

}  // namespace hugepool::sys
