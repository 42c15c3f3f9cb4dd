// Processes that hold leased memory, on the model of FakeKernel.
#ifndef HUGEPOOL_DAEMON_SYS_FAKE_HOLDER_H_
#define HUGEPOOL_DAEMON_SYS_FAKE_HOLDER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "daemon/sys/fake_kernel.h"

namespace hugepool::sys {

// A page pinned as io_uring, VFIO and RDMA do: it outlives every descriptor
// and mapping and stays the pinner's until the end of this object.
class FakePin {
 public:
  FakePin(FakeKernel* kernel, FakeKernel::Frame frame)
      : kernel_(kernel), frame_(frame) {}
  FakePin(FakePin&& o) noexcept
      : kernel_(o.kernel_), frame_(std::exchange(o.frame_, 0)) {}
  FakePin& operator=(FakePin&& o) noexcept;
  ~FakePin() { Release(); }

  uint8_t Read() const { return kernel_->ReadFrame(frame_); }
  void Write(uint8_t tag) { kernel_->WriteFrame(frame_, tag); }
  void Release();

 private:
  FakeKernel* kernel_;
  FakeKernel::Frame frame_;
};

// One process with at most one descriptor and one mapping of one open
// description. Its end closes and unmaps. Move-only; used by one thread at a
// time.
class FakeHolder {
 public:
  // Owns one reference of `desc` as its descriptor.
  FakeHolder(FakeKernel* kernel, FakeKernel::Desc desc, uid_t uid)
      : kernel_(kernel), desc_(desc), uid_(uid), fd_open_(true) {}
  FakeHolder(FakeHolder&& o) noexcept;
  FakeHolder& operator=(FakeHolder&& o) noexcept;
  ~FakeHolder() { Exit(); }

  InodeId inode() const { return inode_; }
  uid_t uid() const { return uid_; }
  bool fd_open() const { return fd_open_; }
  bool mapped() const { return mapped_; }

  // Maps the whole file; false without a descriptor or when mapped.
  bool Map();
  void Unmap();
  void CloseFd();
  // Closes and unmaps.
  void Exit();

  // A load or store somewhere in a page, through the mapping, or one that is
  // made and taken down for it. A hole is filled with a zero page of any node
  // that has one.
  FakeAccess Write(uint64_t page, uint8_t tag);
  // nullopt: SIGBUS, or neither mapped nor open.
  std::optional<uint8_t> Read(uint64_t page);

  // Another process with a dup of the descriptor (nullopt when it is closed);
  // a forked child with what there is of descriptor and mapping.
  std::optional<FakeHolder> Dup(std::optional<uid_t> uid = std::nullopt);
  FakeHolder Fork();
  // Opens the file again by /proc: another description, in another object.
  std::optional<FakeHolder> Reopen();

  // False where the kernel refuses: closed, sealed, not the owner.
  bool Punch(uint64_t page);
  // Tells the model that it has promised not to touch the page any more.
  void GiveUp(uint64_t page) { kernel_->HolderGivesUp(desc_, page); }
  bool Truncate(uint64_t pages);
  bool Chmod(mode_t mode);
  bool AddSeals(int seals);
  // nullopt where the page could not be had.
  std::optional<FakePin> Pin(uint64_t page);

 private:
  FakeHolder(FakeKernel* kernel, FakeKernel::Desc desc, uid_t uid, bool fd_open,
             bool mapped, InodeId inode);

  FakeKernel* kernel_;
  FakeKernel::Desc desc_;
  uid_t uid_;
  bool fd_open_ = false;
  bool mapped_ = false;
  InodeId inode_ = kernel_->InodeOf(desc_);
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FAKE_HOLDER_H_
