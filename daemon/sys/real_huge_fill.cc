#include "daemon/sys/real_huge_fill.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/real_huge_file.h"

#ifndef UFFD_USER_MODE_ONLY  // Linux 5.11
#define UFFD_USER_MODE_ONLY 1
#endif

namespace hugepool::sys {
namespace {

// Nobody shall fault on the range, so what the kernel itself does there need not be
// told of; and without that no privilege is needed.
absl::StatusOr<UniqueFd> OpenUserfaultfd() {
  UniqueFd fd(static_cast<int>(
      syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!fd.valid()) {
    return absl::UnimplementedError(
        absl::StrCat("userfaultfd(): ", strerror(errno)));
  }
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_MISSING_HUGETLBFS;
  if (ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    return absl::UnimplementedError(absl::StrCat(
        "UFFDIO_API with UFFD_FEATURE_MISSING_HUGETLBFS: ", strerror(errno)));
  }
  return fd;
}

}  // namespace

// Small pages, kept for the next: faulting them in anew for each would cost as much
// as the copy.
class RealHugeFill::Buffer {
 public:
  explicit Buffer(Bytes size)
      : size_(size.value()),
        data_(mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {}
  ~Buffer() {
    if (valid()) munmap(data_, size_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  bool valid() const { return data_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const size_t size_;
  void* const data_;
};

RealHugeFill::RealHugeFill(UniqueFd fd, std::byte* data, Bytes length,
                           PageSize page_size)
    : fd_(std::move(fd)),
      data_(data),
      length_(length),
      page_size_(page_size) {}

RealHugeFill::~RealHugeFill() = default;

absl::Status RealHugeFill::SelfTest() { return OpenUserfaultfd().status(); }

absl::StatusOr<std::unique_ptr<RealHugeFill>> RealHugeFill::Start(
    std::byte* data, Bytes length, PageSize page_size) {
  if (page_size.bytes() > kMostPageSize) {
    return absl::UnimplementedError(
        absl::StrCat("pages of ", ToString(page_size),
                     " are too large to be put together in a buffer"));
  }
  HP_ASSIGN_OR_RETURN(UniqueFd fd, OpenUserfaultfd());
  uffdio_register range = {};
  range.range.start = reinterpret_cast<uintptr_t>(data);
  range.range.len = length.value();
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (ioctl(fd.get(), UFFDIO_REGISTER, &range) != 0) {
    return ErrnoToStatus(
        errno, absl::StrCat("UFFDIO_REGISTER(", ToString(length), ")"));
  }
  return std::unique_ptr<RealHugeFill>(
      new RealHugeFill(std::move(fd), data, length, page_size));
}

absl::StatusOr<std::unique_ptr<RealHugeFill::Buffer>>
RealHugeFill::TakeBuffer() {
  {
    MutexLock lock(&mu_);
    if (!buffers_.empty()) {
      std::unique_ptr<Buffer> buffer = std::move(buffers_.back());
      buffers_.pop_back();
      return buffer;
    }
  }
  auto buffer = std::make_unique<Buffer>(page_size_.bytes());
  if (!buffer->valid()) return ErrnoToStatus(errno, "mmap(a buffer)");
  return buffer;
}

absl::Status RealHugeFill::FillPage(Bytes offset,
                                    const std::vector<CopyPart>& parts) {
  const Bytes size = page_size_.bytes();
  if (offset.value() % size.value() != 0 || offset >= length_) {
    return absl::OutOfRangeError(
        absl::StrCat("no page of ", ToString(size), " begins at byte ",
                     offset.value(), " of ", ToString(length_)));
  }
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, TakeBuffer());
  Bytes copied;
  for (const CopyPart& p : parts) copied += p.length;
  if (copied < size) std::memset(buffer->data(), 0, size.value());
  absl::Status status;
  for (const CopyPart& p : parts) {
    if (p.offset < offset || p.offset + p.length > offset + size) {
      status = absl::OutOfRangeError("a part lies outside of its page");
    } else {
      status = ReadFrom(*p.source, p.from,
                        buffer->data() + (p.offset - offset).value(), p.length);
    }
    if (!status.ok()) break;
  }
  if (status.ok()) status = Place(offset, buffer->data());
  MutexLock lock(&mu_);
  buffers_.push_back(std::move(buffer));
  return status;
}

absl::Status RealHugeFill::Place(Bytes offset, const std::byte* from) {
  uffdio_copy copy = {};
  copy.dst = reinterpret_cast<uintptr_t>(data_) + offset.value();
  copy.src = reinterpret_cast<uintptr_t>(from);
  copy.len = page_size_.bytes().value();
  // Nobody sleeps on a fault there who would have to be woken.
  copy.mode = UFFDIO_COPY_MODE_DONTWAKE;
  // EAGAIN: another thread is changing mappings (userfaultfd.rst); nothing was
  // placed.
  while (ioctl(fd_.get(), UFFDIO_COPY, &copy) != 0) {
    const int e = errno;
    if (e != EAGAIN && e != EINTR) {
      return NewPageError(e, absl::StrCat("UFFDIO_COPY at ", ToString(offset)));
    }
    copy.copy = 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HugeFill>> RealHugeFile::StartFill() {
  if (!mapped()) return absl::FailedPreconditionError("not mapped");
  if (!hugetlb_) return absl::UnimplementedError("not a hugetlb file");
  HP_ASSIGN_OR_RETURN(std::unique_ptr<HugeFill> fill,
                      RealHugeFill::Start(data_, mapped_size_, page_size_));
  return fill;
}

}  // namespace hugepool::sys
