// One memfd of RealHugeMemory. Made by RealHugeMemory::Create().
#ifndef HUGEPOOL_DAEMON_SYS_REAL_HUGE_FILE_H_
#define HUGEPOOL_DAEMON_SYS_REAL_HUGE_FILE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/sys/huge_memory.h"

namespace hugepool::sys {

class RealHugeFile : public HugeFile {
 public:
  // `fd` is a counted description of mode 0600 and `size` bytes. `kind` is the
  // probe in use; it outlives the file.
  RealHugeFile(UniqueFd fd, InodeId inode, PageSize page_size, Bytes size,
               bool hugetlb, const std::atomic<ProbeKind>* kind)
      : fd_(std::move(fd)),
        inode_(inode),
        page_size_(page_size),
        hugetlb_(hugetlb),
        kind_(kind),
        size_(size) {}
  ~RealHugeFile() override { Unmap(); }
  RealHugeFile(const RealHugeFile&) = delete;
  RealHugeFile& operator=(const RealHugeFile&) = delete;

  InodeId inode() const override { return inode_; }
  PageSize page_size() const override { return page_size_; }
  Bytes size() const override { return size_; }
  int fd() const override { return fd_.get(); }
  absl::Status Grow(Bytes new_size) override;
  absl::Status Map(NodeId node) override;
  void Unmap() override;
  bool mapped() const override { return data_ != nullptr; }
  std::byte* data() override { return data_; }
  absl::Status Populate(Bytes offset, Bytes length) override;
  absl::Status Zero(Bytes offset, Bytes length, ZeroRoutine routine) override;
  absl::StatusOr<Stray> FindStray(Bytes offset, Bytes length) override;
  absl::Status CopyFrom(HugeFile& source, Bytes from, Bytes offset,
                        Bytes length) override;
  absl::StatusOr<std::unique_ptr<HugeFill>> StartFill() override;
  absl::StatusOr<std::vector<NodeId>> PageNodes() override;
  absl::StatusOr<UniqueFd> OpenForHolder() override;
  absl::Status GiveInode(uid_t uid, gid_t gid) override;
  absl::Status TakeInodeBack() override;
  absl::Status Seal(GrantSeals seals) override;
  absl::StatusOr<FileFacts> Facts() override;
  HolderAnswer Probe() override;
  bool StillArmed() override;
  absl::Status GiveBack() override;
  absl::Status Punch(Bytes offset, Bytes length) override;
  absl::StatusOr<bool> AllZero() override;

 private:
  // OK where the range is mapped and lies in the file.
  absl::Status CheckMappedRange(Bytes offset, Bytes length) const;

  const UniqueFd fd_;
  const InodeId inode_;
  const PageSize page_size_;
  const bool hugetlb_;
  const std::atomic<ProbeKind>* const kind_;
  Bytes size_;
  std::byte* data_ = nullptr;
  Bytes mapped_size_;
  bool armed_ = false;  // a probe answered kFree and nothing took it down
};

// What `call`, which was to make pages present, failed with. RESOURCE_EXHAUSTED:
// there are none.
absl::Status NewPageError(int e, const std::string& call);

// Reads `length` bytes of `source` from `from` on through its descriptor: fills no
// hole, faults nothing. See HugeFile::CopyFrom().
absl::Status ReadFrom(HugeFile& source, Bytes from, std::byte* to,
                      Bytes length);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_REAL_HUGE_FILE_H_
