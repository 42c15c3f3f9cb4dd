// HugeMemory, HolderWatch and KernelPools on the model of FakeKernel.
//
// A test of an upper layer makes one FakeKernel, gives it pages, and hands
// these to what it tests; it plays the holders itself:
//
//   FakeKernel kernel;
//   kernel.AddPages(NodeId(0), k2M, PageCount(64));
//   FakeHugeMemory memory(&kernel);
//   FakeHolderWatch watch(&kernel, callback);
//   ...
//   FakeHolder h = kernel.AdoptHolder(std::move(fd_from_OpenForHolder));
//   h.Map();
//   h.Write(0, 0xA5);
//   h.Exit();
//   watch.Deliver();
#ifndef HUGEPOOL_DAEMON_SYS_FAKE_HUGE_MEMORY_H_
#define HUGEPOOL_DAEMON_SYS_FAKE_HUGE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/sys/fake_holder.h"
#include "daemon/sys/fake_kernel.h"
#include "daemon/sys/huge_memory.h"
#include "daemon/sys/topology.h"

namespace hugepool::sys {

class FakeHugeFile;

class FakeHugeFill : public HugeFill {
 public:
  explicit FakeHugeFill(FakeHugeFile* file) : file_(file) {}
  absl::Status FillPage(Bytes offset,
                        const std::vector<CopyPart>& parts) override;

 private:
  FakeHugeFile* const file_;
};

// data() is always nullptr: content is the model's tag bytes, and Zero() does
// not call its routine.
class FakeHugeFile : public HugeFile {
 public:
  // Owns the daemon's description `desc`.
  FakeHugeFile(FakeKernel* kernel, FakeKernel::Desc desc, PageSize page_size,
               PageCount pages, const std::atomic<ProbeKind>* kind);
  ~FakeHugeFile() override;

  InodeId inode() const override { return inode_; }
  PageSize page_size() const override { return page_size_; }
  Bytes size() const override { return size_; }
  absl::Status Grow(Bytes new_size) override;
  absl::Status Map(NodeId node) override;
  void Unmap() override;
  bool mapped() const override { return mapped_; }
  std::byte* data() override { return nullptr; }
  absl::Status Populate(Bytes offset, Bytes length) override;
  absl::Status Zero(Bytes offset, Bytes length, ZeroRoutine routine) override;
  absl::StatusOr<Stray> FindStray(Bytes offset, Bytes length) override;
  // `source` is of the same kernel.
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
  friend class FakeHugeFill;

  FakeKernel* const kernel_;
  const FakeKernel::Desc desc_;
  const PageSize page_size_;
  const std::atomic<ProbeKind>* const kind_;
  const InodeId inode_;
  Bytes size_;
  bool mapped_ = false;
  bool armed_ = false;  // a probe answered kFree and nothing took it down
  NodeId node_;         // of the mapping's policy
};

// Thread-safe.
class FakeHugeMemory : public HugeMemory {
 public:
  explicit FakeHugeMemory(FakeKernel* kernel) : kernel_(kernel) {}

  absl::StatusOr<std::unique_ptr<HugeFile>> Create(PageSize page_size,
                                                   PageCount pages,
                                                   NodeId node) override;
  ProbeKind SelfTest() override { return probe_kind(); }
  // Relaxed: a setting, orders nothing.
  ProbeKind probe_kind() const override {
    return kind_.load(std::memory_order_relaxed);
  }
  bool CanFill(PageSize page_size) const override { return page_size != k1G; }
  std::string_view backend() const override { return "fake"; }

  // kLease at first. With kNone every probe answers kUnknown.
  void set_probe_kind(ProbeKind kind) {
    kind_.store(kind, std::memory_order_relaxed);
  }

 private:
  FakeKernel* const kernel_;
  std::atomic<ProbeKind> kind_{ProbeKind::kLease};
};

// Calls back only from Deliver(), on the caller's thread, with no lock held.
class FakeHolderWatch : public HolderWatch {
 public:
  FakeHolderWatch(FakeKernel* kernel, Callback callback)
      : kernel_(kernel),
        callback_(std::move(callback)),
        queue_(kernel->NewQueue()) {}

  absl::Status Add(HugeFile& file) override {
    return kernel_->Watch(*queue_, file.inode());
  }
  void Remove(InodeId inode) override { kernel_->Unwatch(*queue_, inode); }

  // Hands over all that is unread; returns how many events there were.
  size_t Deliver();
  // Events that were not delivered yet are lost, as in IN_Q_OVERFLOW.
  void Overflow() { kernel_->OverflowQueue(*queue_); }

 private:
  FakeKernel* const kernel_;
  const Callback callback_;
  const std::shared_ptr<FakeKernel::Queue> queue_;
};

// Thread-safe. The page sizes are those the kernel had when this was made.
class FakeKernelPools : public KernelPools {
 public:
  explicit FakeKernelPools(FakeKernel* kernel)
      : kernel_(kernel), sizes_(kernel->PageSizes()) {}

  const std::vector<PageSize>& page_sizes() const override { return sizes_; }
  absl::StatusOr<KernelCounters> Read(NodeId node,
                                      PageSize size) const override {
    return kernel_->Counters(node, size);
  }
  absl::StatusOr<PageCount> SetTotal(NodeId node, PageSize size,
                                     PageCount pages) override {
    return kernel_->SetTotal(node, size, pages);
  }

 private:
  FakeKernel* const kernel_;
  const std::vector<PageSize> sizes_;
};

// A topology that a test writes down.
class FakeTopology : public Topology {
 public:
  explicit FakeTopology(std::vector<NodeInfo> nodes)
      : nodes_(std::move(nodes)) {}
  // `count` nodes 0, 1, ... of `memory` each, with `cpus` CPUs each.
  static FakeTopology Uniform(int count, Bytes memory, int cpus);

  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  Bytes total_memory() const override;

 private:
  std::vector<NodeInfo> nodes_;
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_FAKE_HUGE_MEMORY_H_
