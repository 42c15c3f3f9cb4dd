#include "daemon/sys/real_huge_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/memfd_name.h"
#include "daemon/sys/real_huge_file.h"
#include "daemon/sys/real_huge_fill.h"

#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace hugepool::sys {
namespace {


unsigned HugetlbFlags(PageSize size) {
  return MFD_HUGETLB | (unsigned{size.shift()} << MFD_HUGE_SHIFT);
}

// What a lease's file is like, but with no memory behind it.
absl::StatusOr<UniqueFd> Counted(UniqueFd original) {
  auto counted = OpenAgain(original.get(), O_RDWR);
  if (!counted.ok()) return counted.status();
  if (fchmod(counted->get(), 0600) != 0) {
    return ErrnoToStatus(errno, "fchmod(memfd, 0600)");
  }
  return counted;
}

}  // namespace

absl::StatusOr<UniqueFd> RealHugeMemory::NewMemfd(unsigned size_flags) {
  const unsigned flags = size_flags | MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const bool noexec = noexec_seal_.load(std::memory_order_relaxed);
  UniqueFd fd(memfd_create(kMemfdName, flags | (noexec ? MFD_NOEXEC_SEAL : 0U)));
  if (!fd.valid() && errno == EINVAL && noexec) {
    fd.reset(memfd_create(kMemfdName, flags));
    // The flag was the reason only if it works without.
    if (fd.valid()) noexec_seal_.store(false, std::memory_order_relaxed);
  }
  if (!fd.valid()) return ErrnoToStatus(errno, "memfd_create");
  return fd;
}

absl::StatusOr<std::unique_ptr<HugeFile>> RealHugeMemory::Create(
    PageSize page_size, PageCount pages, NodeId) {
  const uint64_t limit =
      static_cast<uint64_t>(std::numeric_limits<off_t>::max());
  if (pages.value() == 0 || pages.value() > limit >> page_size.shift()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a file of ", pages.value(), " pages of ",
                     ToString(page_size), " cannot be"));
  }
  const bool hugetlb = backend_ == Backend::kHugetlb;
  auto memfd = NewMemfd(hugetlb ? HugetlbFlags(page_size) : 0U);
  if (!memfd.ok()) {
    return Annotate(memfd.status(),
                    absl::StrCat("pages of ", ToString(page_size)));
  }
  auto fd = Counted(*std::move(memfd));
  if (!fd.ok()) return fd.status();
  const Bytes size = page_size.Of(pages);
  if (ftruncate(fd->get(), static_cast<off_t>(size.value())) != 0) {
    return ErrnoToStatus(
        errno, absl::StrCat("ftruncate(memfd, ", ToString(size), ")"));
  }
  struct stat st = {};
  if (fstat(fd->get(), &st) != 0) return ErrnoToStatus(errno, "fstat(memfd)");
  return std::make_unique<RealHugeFile>(*std::move(fd), InodeId(st.st_ino),
                                        page_size, size, hugetlb, &kind_);
}

ProbeKind RealHugeMemory::SelfTest() {
  report_ = LeaseReport();
  ProbeKind kind = ProbeKind::kNone;
  // The kernel's default size: a file of it can be made without any page.
  auto memfd =
      NewMemfd(backend_ == Backend::kHugetlb ? unsigned{MFD_HUGETLB} : 0U);
  if (memfd.ok()) memfd = Counted(*std::move(memfd));
  if (memfd.ok()) {
    struct stat st = {};
    if (fstat(memfd->get(), &st) == 0 &&
        ftruncate(memfd->get(), st.st_blksize) == 0) {
      report_ =
          TestLeases(memfd->get(), Bytes(static_cast<uint64_t>(st.st_blksize)));
      if (report_.usable()) kind = ProbeKind::kLease;
    }
  }
  kind_.store(kind, std::memory_order_relaxed);
  can_fill_.store(
      backend_ == Backend::kHugetlb && RealHugeFill::SelfTest().ok(),
      std::memory_order_relaxed);
  return kind;
}

bool RealHugeMemory::CanFill(PageSize page_size) const {
  return can_fill_.load(std::memory_order_relaxed) &&
         page_size.bytes() <= RealHugeFill::kMostPageSize;
}

}  // namespace hugepool::sys
