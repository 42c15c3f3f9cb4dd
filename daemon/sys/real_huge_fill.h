// Filling holes of a hugetlb file by userfaultfd. Made by RealHugeFile.
#ifndef HUGEPOOL_DAEMON_SYS_REAL_HUGE_FILL_H_
#define HUGEPOOL_DAEMON_SYS_REAL_HUGE_FILL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool::sys {

// A page is put together in a buffer and handed to UFFDIO_COPY, which allocates,
// copies and maps it in one go: the only way to a hugetlb page that the kernel has
// not cleared before (userfaultfd(2)). The range is registered for as long as this
// lives. A registered range shares no page tables, an unregistered one may again.
//
// Thread-safe, on separate pages.
class RealHugeFill : public HugeFill {
 public:
  // Larger pages would need buffers of their size: a thread that fills has one.
  static constexpr Bytes kMostPageSize = MiB(32);

  // UNIMPLEMENTED where this kernel, or what filters our calls, has no
  // userfaultfd for hugetlb.
  static absl::Status SelfTest();

  // All of a mapping of `length` bytes at `data`.
  static absl::StatusOr<std::unique_ptr<RealHugeFill>> Start(
      std::byte* data, Bytes length, PageSize page_size);
  ~RealHugeFill() override;

  absl::Status FillPage(Bytes offset,
                        const std::vector<CopyPart>& parts) override;

 private:
  // A buffer of one page.
  class Buffer;

  RealHugeFill(UniqueFd fd, std::byte* data, Bytes length, PageSize page_size);
  absl::StatusOr<std::unique_ptr<Buffer>> TakeBuffer() HP_EXCLUDES(mu_);
  absl::Status Place(Bytes offset, const std::byte* from);

  const UniqueFd fd_;  // closing it unregisters the range
  std::byte* const data_;
  const Bytes length_;
  const PageSize page_size_;
  Mutex mu_;
  // Those that no thread uses at the moment; as many as threads fill at once.
  std::vector<std::unique_ptr<Buffer>> buffers_ HP_GUARDED_BY(mu_);
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_REAL_HUGE_FILL_H_
