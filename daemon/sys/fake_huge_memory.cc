#include "daemon/sys/fake_huge_memory.h"

#include <fcntl.h>

#include <utility>

namespace hugepool::sys {

FakeHugeFile::FakeHugeFile(FakeKernel* kernel, FakeKernel::Desc desc,
                           PageSize page_size, PageCount pages,
                           const std::atomic<ProbeKind>* kind)
    : kernel_(kernel),
      desc_(desc),
      page_size_(page_size),
      kind_(kind),
      inode_(kernel->InodeOf(desc)),
      size_(page_size.Of(pages)) {}

FakeHugeFile::~FakeHugeFile() {
  Unmap();
  kernel_->Unref(desc_);
}

absl::Status FakeHugeFile::Grow(Bytes new_size) {
  if (mapped_) {
    return absl::FailedPreconditionError("a mapped file does not grow");
  }
  absl::Status status = kernel_->Grow(desc_, new_size);
  if (status.ok()) size_ = new_size;
  return status;
}

absl::Status FakeHugeFile::Map(NodeId node) {
  if (mapped_) return absl::FailedPreconditionError("mapped already");
  absl::Status status = kernel_->MapFor(desc_, node);
  mapped_ = status.ok();
  node_ = node;
  return status;
}

void FakeHugeFile::Unmap() {
  if (std::exchange(mapped_, false)) kernel_->Unref(desc_);
}

absl::Status FakeHugeFile::Populate(Bytes offset, Bytes length) {
  if (!mapped_) return absl::FailedPreconditionError("not mapped");
  return kernel_->Populate(desc_, node_, offset, length);
}

absl::Status FakeHugeFile::Zero(Bytes offset, Bytes length, ZeroRoutine) {
  if (!mapped_) return absl::FailedPreconditionError("not mapped");
  return kernel_->Zero(desc_, node_, offset, length);
}

absl::StatusOr<HugeFile::Stray> FakeHugeFile::FindStray(Bytes offset,
                                                        Bytes length) {
  if (!mapped_) return absl::FailedPreconditionError("not mapped");
  return kernel_->FindStray(desc_, node_, offset, length);
}

absl::Status FakeHugeFile::CopyFrom(HugeFile& source, Bytes from, Bytes offset,
                                    Bytes length) {
  if (!mapped_) return absl::FailedPreconditionError("not mapped");
  return kernel_->Copy(desc_, offset, static_cast<FakeHugeFile&>(source).desc_,
                       from, length);
}

absl::StatusOr<std::unique_ptr<HugeFill>> FakeHugeFile::StartFill() {
  if (!mapped_) return absl::FailedPreconditionError("not mapped");
  if (page_size_ == k1G) return absl::UnimplementedError("pages of 1G");
  return std::make_unique<FakeHugeFill>(this);
}

absl::Status FakeHugeFill::FillPage(Bytes offset,
                                    const std::vector<CopyPart>& parts) {
  std::vector<FakeKernel::CopyFrom> from;
  for (const CopyPart& p : parts) {
    from.push_back({static_cast<FakeHugeFile&>(*p.source).desc_, p.from,
                    p.offset, p.length});
  }
  return file_->kernel_->FillPage(file_->desc_, file_->node_, offset, from);
}

absl::StatusOr<std::vector<NodeId>> FakeHugeFile::PageNodes() {
  if (!mapped_) return absl::FailedPreconditionError("not mapped");
  return kernel_->PageNodes(desc_);
}

absl::StatusOr<UniqueFd> FakeHugeFile::OpenForHolder() {
  if (armed_) {
    if (!kernel_->LeaseIntact(desc_)) {
      return absl::AbortedError("somebody opened the file since the probe");
    }
    kernel_->UnsetLease(desc_);
    armed_ = false;
  }
  return kernel_->OpenToken(desc_);
}

absl::Status FakeHugeFile::GiveInode(uid_t uid, gid_t) {
  return kernel_->Chown(desc_, uid, /*reset_mode=*/false);
}

absl::Status FakeHugeFile::TakeInodeBack() {
  return kernel_->Chown(desc_, FakeKernel::kDaemonUid, /*reset_mode=*/true);
}

absl::Status FakeHugeFile::Seal(GrantSeals seals) {
  return kernel_->AddSeals(
      desc_, F_SEAL_GROW | F_SEAL_SEAL | (seals.shrink ? F_SEAL_SHRINK : 0));
}

absl::StatusOr<FileFacts> FakeHugeFile::Facts() {
  return kernel_->Facts(desc_);
}

HolderAnswer FakeHugeFile::Probe() {
  if (kind_->load(std::memory_order_relaxed) == ProbeKind::kNone) {
    return HolderAnswer::kUnknown;
  }
  if (armed_) kernel_->UnsetLease(desc_);
  const HolderAnswer answer = kernel_->SetLease(desc_);
  armed_ = answer == HolderAnswer::kFree;
  return answer;
}

bool FakeHugeFile::StillArmed() {
  return armed_ && kernel_->LeaseIntact(desc_);
}

absl::Status FakeHugeFile::GiveBack() {
  Unmap();
  return kernel_->GiveBack(desc_);
}

absl::Status FakeHugeFile::Punch(Bytes offset, Bytes length) {
  return kernel_->DaemonPunch(desc_, offset, length);
}

absl::StatusOr<bool> FakeHugeFile::AllZero() { return kernel_->AllZero(desc_); }

absl::StatusOr<std::unique_ptr<HugeFile>> FakeHugeMemory::Create(
    PageSize page_size, PageCount pages, NodeId) {
  auto desc = kernel_->Create(page_size, pages);
  if (!desc.ok()) return desc.status();
  return std::make_unique<FakeHugeFile>(kernel_, *desc, page_size, pages,
                                        &kind_);
}

size_t FakeHolderWatch::Deliver() {
  const std::vector<Event> events = kernel_->ReadQueue(*queue_);
  for (const Event& event : events) callback_(event);
  return events.size();
}

FakeTopology FakeTopology::Uniform(int count, Bytes memory, int cpus) {
  std::vector<NodeInfo> nodes;
  for (int n = 0; n < count; ++n) {
    NodeInfo info{.id = NodeId(static_cast<uint32_t>(n)), .memory = memory};
    for (int c = 0; c < cpus; ++c) info.cpus.push_back(n * cpus + c);
    info.worker_cpus = info.cpus;
    nodes.push_back(std::move(info));
  }
  return FakeTopology(std::move(nodes));
}

Bytes FakeTopology::total_memory() const {
  Bytes total;
  for (const NodeInfo& node : nodes_) total += node.memory;
  return total;
}

}  // namespace hugepool::sys
