// Tells how far the population of a file is.
#ifndef HUGEPOOL_DAEMON_RECLAIM_COUNTED_FILE_H_
#define HUGEPOOL_DAEMON_RECLAIM_COUNTED_FILE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/sys/huge_memory.h"

namespace hugepool {

// Another file with a word after each part that was populated. `populated` is
// called by those who populate, also several at once; it must be cheap and take
// no lock.
class CountedFile final : public sys::HugeFile {
 public:
  CountedFile(sys::HugeFile& file, std::function<void(Bytes)> populated)
      : file_(file), populated_(std::move(populated)) {}

  absl::Status Populate(Bytes offset, Bytes length) override {
    absl::Status status = file_.Populate(offset, length);
    if (status.ok()) populated_(length);
    return status;
  }

  sys::InodeId inode() const override { return file_.inode(); }
  PageSize page_size() const override { return file_.page_size(); }
  Bytes size() const override { return file_.size(); }
  int fd() const override { return file_.fd(); }
  absl::Status Grow(Bytes new_size) override { return file_.Grow(new_size); }
  absl::Status Map(NodeId node) override { return file_.Map(node); }
  void Unmap() override { file_.Unmap(); }
  bool mapped() const override { return file_.mapped(); }
  std::byte* data() override { return file_.data(); }
  absl::Status Zero(Bytes offset, Bytes length, ZeroRoutine routine) override {
    return file_.Zero(offset, length, routine);
  }
  absl::StatusOr<Stray> FindStray(Bytes offset, Bytes length) override {
    return file_.FindStray(offset, length);
  }
  absl::Status CopyFrom(sys::HugeFile& source, Bytes from, Bytes offset,
                        Bytes length) override {
    return file_.CopyFrom(source, from, offset, length);
  }
  absl::StatusOr<std::unique_ptr<sys::HugeFill>> StartFill() override {
    return file_.StartFill();
  }
  absl::StatusOr<std::vector<NodeId>> PageNodes() override {
    return file_.PageNodes();
  }
  absl::StatusOr<UniqueFd> OpenForHolder() override {
    return file_.OpenForHolder();
  }
  absl::Status GiveInode(uid_t uid, gid_t gid) override {
    return file_.GiveInode(uid, gid);
  }
  absl::Status TakeInodeBack() override { return file_.TakeInodeBack(); }
  absl::Status Seal(sys::GrantSeals seals) override {
    return file_.Seal(seals);
  }
  absl::StatusOr<sys::FileFacts> Facts() override { return file_.Facts(); }
  sys::HolderAnswer Probe() override { return file_.Probe(); }
  bool StillArmed() override { return file_.StillArmed(); }
  absl::Status GiveBack() override { return file_.GiveBack(); }
  absl::Status Punch(Bytes offset, Bytes length) override {
    return file_.Punch(offset, length);
  }
  absl::StatusOr<bool> AllZero() override { return file_.AllZero(); }

 private:
  sys::HugeFile& file_;
  const std::function<void(Bytes)> populated_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_RECLAIM_COUNTED_FILE_H_
