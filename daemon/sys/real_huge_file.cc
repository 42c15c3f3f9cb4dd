// Owners, seals, probes and giving back. The mapping: real_huge_mapping.cc; the
// bytes: real_huge_bytes.cc.
#include "daemon/sys/real_huge_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/lease_probe.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

namespace hugepool::sys {
namespace {

// The kernel answers only a file's owner (or CAP_LEASE). One that was given to
// its holder is ours for as long as the question takes.
HolderAnswer AskAsOwner(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0 || st.st_uid == geteuid() ||
      fchown(fd, geteuid(), static_cast<gid_t>(-1)) != 0) {
    return HolderAnswer::kUnknown;
  }
  const HolderAnswer answer = SetWriteLease(fd);
  if (fchown(fd, st.st_uid, static_cast<gid_t>(-1)) == 0) return answer;
  return answer == HolderAnswer::kBusy ? answer : HolderAnswer::kUnknown;
}

// -1 and errno, as fcntl. MFD_NOEXEC_SEAL sets F_SEAL_EXEC: no difference here.
int SealsOf(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals < 0 ? seals : seals & ~F_SEAL_EXEC;
}

}  // namespace

absl::Status RealHugeFile::Grow(Bytes new_size) {
  if (mapped()) {
    return absl::FailedPreconditionError("a mapped file does not grow");
  }
  if (new_size < size_ ||
      page_size_.Of(page_size_.Floor(new_size)) != new_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a file of ", ToString(size_), " cannot grow to ", ToString(new_size)));
  }
  if (ftruncate(fd_.get(), static_cast<off_t>(new_size.value())) != 0) {
    return ErrnoToStatus(
        errno, absl::StrCat("ftruncate(memfd, ", ToString(new_size), ")"));
  }
  size_ = new_size;
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> RealHugeFile::OpenForHolder() {
  if (armed_) {
    if (!WriteLeaseIntact(fd_.get())) {
      return absl::AbortedError("somebody opened the file since the probe");
    }
    UnsetLease(fd_.get());
    armed_ = false;
  }
  return OpenAgain(fd_.get(), O_RDWR);
}

absl::Status RealHugeFile::GiveInode(uid_t uid, gid_t gid) {
  if (fchown(fd_.get(), uid, gid) != 0) {
    return ErrnoToStatus(errno,
                         absl::StrCat("fchown(memfd, ", uid, ", ", gid, ")"));
  }
  return absl::OkStatus();
}

absl::Status RealHugeFile::TakeInodeBack() {
  if (fchown(fd_.get(), geteuid(), getegid()) != 0) {
    return ErrnoToStatus(errno, "fchown(memfd, ourselves)");
  }
  if (fchmod(fd_.get(), 0600) != 0) {
    return ErrnoToStatus(errno, "fchmod(memfd, 0600)");
  }
  return absl::OkStatus();
}

absl::Status RealHugeFile::Seal(GrantSeals seals) {
  const int wanted =
      F_SEAL_GROW | F_SEAL_SEAL | (seals.shrink ? F_SEAL_SHRINK : 0);
  const int present = SealsOf(fd_.get());
  if (present < 0) return ErrnoToStatus(errno, "fcntl(F_GET_SEALS)");
  if (present == wanted) return absl::OkStatus();
  if ((present & ~wanted) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("seals ", present, " are more than wanted, ", wanted));
  }
  if (fcntl(fd_.get(), F_ADD_SEALS, wanted) != 0) {
    return ErrnoToStatus(errno,
                         absl::StrCat("fcntl(F_ADD_SEALS, ", wanted, ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileFacts> RealHugeFile::Facts() {
  struct stat st = {};
  if (fstat(fd_.get(), &st) != 0) return ErrnoToStatus(errno, "fstat(memfd)");
  const int seals = SealsOf(fd_.get());
  if (seals < 0) return ErrnoToStatus(errno, "fcntl(F_GET_SEALS)");
  return FileFacts{
      .inode = InodeId(st.st_ino),
      .size = Bytes(static_cast<uint64_t>(st.st_size)),
      .allocated = Bytes(static_cast<uint64_t>(st.st_blocks)) * 512,
      .mode = st.st_mode & 07777,
      .uid = st.st_uid,
      .seals = seals};
}

HolderAnswer RealHugeFile::Probe() {
  if (kind_->load(std::memory_order_relaxed) != ProbeKind::kLease) {
    return HolderAnswer::kUnknown;
  }
  // A lease that an open is breaking cannot be set again.
  if (armed_) UnsetLease(fd_.get());
  HolderAnswer answer = SetWriteLease(fd_.get());
  if (answer == HolderAnswer::kUnknown) answer = AskAsOwner(fd_.get());
  armed_ = answer == HolderAnswer::kFree;
  return answer;
}

bool RealHugeFile::StillArmed() {
  return armed_ && WriteLeaseIntact(fd_.get());
}

absl::Status RealHugeFile::GiveBack() {
  Unmap();
  const int seals = SealsOf(fd_.get());
  if (seals < 0) return ErrnoToStatus(errno, "fcntl(F_GET_SEALS)");
  if ((seals & F_SEAL_SHRINK) != 0) return Punch(Bytes(0), size_);
  if (ftruncate(fd_.get(), 0) != 0) {
    return ErrnoToStatus(errno, "ftruncate(memfd, 0)");
  }
  size_ = Bytes(0);
  return absl::OkStatus();
}

absl::Status RealHugeFile::Punch(Bytes offset, Bytes length) {
  if (fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(offset.value()),
                static_cast<off_t>(length.value())) != 0) {
    return ErrnoToStatus(
        errno, absl::StrCat("fallocate(PUNCH_HOLE, ", ToString(offset), ", ",
                            ToString(length), ")"));
  }
  return absl::OkStatus();
}

}  // namespace hugepool::sys
