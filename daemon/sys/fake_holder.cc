#include "daemon/sys/fake_holder.h"

namespace hugepool::sys {

FakePin& FakePin::operator=(FakePin&& o) noexcept {
  if (this != &o) {
    Release();
    kernel_ = o.kernel_;
    frame_ = std::exchange(o.frame_, 0);
  }
  return *this;
}

void FakePin::Release() {
  if (frame_ != 0) kernel_->Unpin(std::exchange(frame_, 0));
}

FakeHolder::FakeHolder(FakeKernel* kernel, FakeKernel::Desc desc, uid_t uid,
                       bool fd_open, bool mapped, InodeId inode)
    : kernel_(kernel),
      desc_(desc),
      uid_(uid),
      fd_open_(fd_open),
      mapped_(mapped),
      inode_(inode) {}

FakeHolder::FakeHolder(FakeHolder&& o) noexcept
    : kernel_(o.kernel_),
      desc_(o.desc_),
      uid_(o.uid_),
      fd_open_(std::exchange(o.fd_open_, false)),
      mapped_(std::exchange(o.mapped_, false)),
      inode_(o.inode_) {}

FakeHolder& FakeHolder::operator=(FakeHolder&& o) noexcept {
  if (this != &o) {
    Exit();
    kernel_ = o.kernel_;
    desc_ = o.desc_;
    uid_ = o.uid_;
    fd_open_ = std::exchange(o.fd_open_, false);
    mapped_ = std::exchange(o.mapped_, false);
    inode_ = o.inode_;
  }
  return *this;
}

bool FakeHolder::Map() {
  if (!fd_open_ || mapped_) return false;
  kernel_->Ref(desc_);
  mapped_ = true;
  return true;
}

void FakeHolder::Unmap() {
  if (std::exchange(mapped_, false)) kernel_->Unref(desc_);
}

void FakeHolder::CloseFd() {
  if (std::exchange(fd_open_, false)) kernel_->Unref(desc_);
}

void FakeHolder::Exit() {
  Unmap();
  CloseFd();
}

FakeAccess FakeHolder::Write(uint64_t page, uint8_t tag) {
  if (!fd_open_ && !mapped_) return FakeAccess::kNoAccess;
  return kernel_->Access(desc_, page, tag, nullptr);
}

std::optional<uint8_t> FakeHolder::Read(uint64_t page) {
  uint8_t tag = 0;
  if (!fd_open_ && !mapped_) return std::nullopt;
  if (kernel_->Access(desc_, page, std::nullopt, &tag) != FakeAccess::kOk) {
    return std::nullopt;
  }
  return tag;
}

std::optional<FakeHolder> FakeHolder::Dup(std::optional<uid_t> uid) {
  if (!fd_open_) return std::nullopt;
  kernel_->Ref(desc_);
  return FakeHolder(kernel_, desc_, uid.value_or(uid_), /*fd_open=*/true,
                    /*mapped=*/false, inode_);
}

FakeHolder FakeHolder::Fork() {
  if (fd_open_) kernel_->Ref(desc_);
  if (mapped_) kernel_->Ref(desc_);
  return FakeHolder(kernel_, desc_, uid_, fd_open_, mapped_, inode_);
}

std::optional<FakeHolder> FakeHolder::Reopen() {
  if (!fd_open_) return std::nullopt;
  return kernel_->OpenByPath(inode_, uid_);
}

bool FakeHolder::Punch(uint64_t page) {
  return fd_open_ && kernel_->HolderPunch(desc_, page);
}

bool FakeHolder::Truncate(uint64_t pages) {
  return fd_open_ && kernel_->HolderTruncate(desc_, pages);
}

bool FakeHolder::Chmod(mode_t mode) {
  return fd_open_ && kernel_->HolderChmod(desc_, uid_, mode);
}

bool FakeHolder::AddSeals(int seals) {
  return fd_open_ && kernel_->HolderAddSeals(desc_, seals);
}

std::optional<FakePin> FakeHolder::Pin(uint64_t page) {
  if (!fd_open_ && !mapped_) return std::nullopt;
  const FakeKernel::Frame frame = kernel_->PinPage(desc_, page);
  if (frame == 0) return std::nullopt;
  return FakePin(kernel_, frame);
}

}  // namespace hugepool::sys
