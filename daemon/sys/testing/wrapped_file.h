// A HugeFile that hands every call on: for tests that want to see some of them.
#ifndef HUGEPOOL_DAEMON_SYS_TESTING_WRAPPED_FILE_H_
#define HUGEPOOL_DAEMON_SYS_TESTING_WRAPPED_FILE_H_

#include <memory>
#include <utility>
#include <vector>

#include "daemon/sys/huge_memory.h"

namespace hugepool::sys::testing {

class WrappedFile : public HugeFile {
 public:
  explicit WrappedFile(std::unique_ptr<HugeFile> file)
      : file_(std::move(file)) {}

  InodeId inode() const override { return file_->inode(); }
  PageSize page_size() const override { return file_->page_size(); }
  Bytes size() const override { return file_->size(); }
  int fd() const override { return file_->fd(); }
  absl::Status Grow(Bytes size) override { return file_->Grow(size); }
  absl::Status Map(NodeId node) override { return file_->Map(node); }
  void Unmap() override { file_->Unmap(); }
  bool mapped() const override { return file_->mapped(); }
  std::byte* data() override { return file_->data(); }
  absl::Status Populate(Bytes offset, Bytes length) override {
    return file_->Populate(offset, length);
  }
  absl::Status Zero(Bytes offset, Bytes length, ZeroRoutine routine) override {
    return file_->Zero(offset, length, routine);
  }
  absl::StatusOr<Stray> FindStray(Bytes offset, Bytes length) override {
    return file_->FindStray(offset, length);
  }
  absl::Status CopyFrom(HugeFile& source, Bytes from, Bytes offset,
                        Bytes length) override {
    auto* wrapped = dynamic_cast<WrappedFile*>(&source);
    return file_->CopyFrom(wrapped != nullptr ? *wrapped->file_ : source, from,
                           offset, length);
  }
  absl::StatusOr<std::unique_ptr<HugeFill>> StartFill() override {
    auto fill = file_->StartFill();
    if (!fill.ok()) return fill.status();
    return std::make_unique<Fill>(*std::move(fill));
  }
  absl::StatusOr<std::vector<NodeId>> PageNodes() override {
    return file_->PageNodes();
  }
  absl::StatusOr<UniqueFd> OpenForHolder() override {
    return file_->OpenForHolder();
  }
  absl::Status GiveInode(uid_t uid, gid_t gid) override {
    return file_->GiveInode(uid, gid);
  }
  absl::Status TakeInodeBack() override { return file_->TakeInodeBack(); }
  absl::Status Seal(GrantSeals seals) override { return file_->Seal(seals); }
  absl::StatusOr<FileFacts> Facts() override { return file_->Facts(); }
  HolderAnswer Probe() override { return file_->Probe(); }
  bool StillArmed() override { return file_->StillArmed(); }
  absl::Status GiveBack() override { return file_->GiveBack(); }
  absl::Status Punch(Bytes offset, Bytes length) override {
    return file_->Punch(offset, length);
  }
  absl::StatusOr<bool> AllZero() override { return file_->AllZero(); }

 private:
  // Hands the files within on.
  class Fill : public HugeFill {
   public:
    explicit Fill(std::unique_ptr<HugeFill> fill) : fill_(std::move(fill)) {}
    absl::Status FillPage(Bytes offset,
                          const std::vector<CopyPart>& parts) override {
      std::vector<CopyPart> within = parts;
      for (CopyPart& p : within) {
        if (auto* w = dynamic_cast<WrappedFile*>(p.source)) {
          p.source = w->file_.get();
        }
      }
      return fill_->FillPage(offset, within);
    }

   private:
    const std::unique_ptr<HugeFill> fill_;
  };

  const std::unique_ptr<HugeFile> file_;
};

}  // namespace hugepool::sys::testing

#endif  // HUGEPOOL_DAEMON_SYS_TESTING_WRAPPED_FILE_H_
