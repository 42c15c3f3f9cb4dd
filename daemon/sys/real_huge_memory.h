// HugeMemory by the kernel: hugetlb memfds, or ordinary ones.
#ifndef HUGEPOOL_DAEMON_SYS_REAL_HUGE_MEMORY_H_
#define HUGEPOOL_DAEMON_SYS_REAL_HUGE_MEMORY_H_

#include <atomic>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/sys/huge_memory.h"
#include "daemon/sys/lease_probe.h"

namespace hugepool::sys {

// Where the memory comes from.
enum class Backend {
  kHugetlb,  // the kernel's pools of huge pages
  kShmem,    // ordinary memory, for machines without any: "pages" are parts
             // of the file of the nominal size
};

// Thread-safe. Must outlive its files.
class RealHugeMemory : public HugeMemory {
 public:
  explicit RealHugeMemory(Backend backend) : backend_(backend) {}

  absl::StatusOr<std::unique_ptr<HugeFile>> Create(PageSize page_size,
                                                   PageCount pages,
                                                   NodeId node) override;

  // Makes a child process for a moment and ignores SIGIO from then on: to be
  // called before threads start. Until then probe_kind() is kNone.
  ProbeKind SelfTest() override;
  ProbeKind probe_kind() const override {
    return kind_.load(std::memory_order_relaxed);
  }
  // What the last SelfTest() saw. Not to be called while one runs.
  const LeaseReport& lease_report() const { return report_; }

  // As SelfTest() found it.
  bool CanFill(PageSize page_size) const override;

  std::string_view backend() const override {
    return backend_ == Backend::kHugetlb ? "hugetlb" : "shmem";
  }

 private:
  absl::StatusOr<UniqueFd> NewMemfd(unsigned size_flags);

  const Backend backend_;
  // Relaxed: written once at start, before threads; orders nothing.
  std::atomic<ProbeKind> kind_{ProbeKind::kNone};
  // False once the kernel was seen not to know MFD_NOEXEC_SEAL (before 6.3).
  // Relaxed: a hint, two threads may find out at once.
  std::atomic<bool> noexec_seal_{true};
  // Relaxed: as kind_.
  std::atomic<bool> can_fill_{false};
  LeaseReport report_;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_REAL_HUGE_MEMORY_H_
