#include "tests/harness/guards.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/sysfs.h"

namespace hugepool::testing {

absl::StatusOr<std::unique_ptr<SysctlGuard>> SysctlGuard::Set(
    const std::string& path, const std::string& value) {
  HP_ASSIGN_OR_RETURN(const std::string before, sys::ReadSmallFile(path));
  std::unique_ptr<SysctlGuard> guard(new SysctlGuard);
  // In a session of its own, so that what kills the test's process group does
  // not kill it; `read` returns when our end of the pipe is closed.
  HP_ASSIGN_OR_RETURN(
      guard->restorer_,
      ChildProcess::StartDetached(
          {"/bin/sh", "-c",
           absl::StrCat("echo ready; read line; echo ", before, " > ", path)}));
  if (!guard->restorer_->ReadLine(absl::Seconds(10)).has_value()) {
    return absl::UnavailableError("the restoring shell did not start");
  }
  HP_RETURN_IF_ERROR(sys::WriteSmallFile(path, value));
  return guard;
}

SysctlGuard::~SysctlGuard() {
  if (restorer_ == nullptr) return;
  restorer_->WriteLine("");
  restorer_->Wait(absl::Seconds(10));
}

absl::StatusOr<std::unique_ptr<KernelPages>> KernelPages::Reserve(
    PageCount of_2m, PageCount of_1g) {
  std::unique_ptr<KernelPages> pages(new KernelPages);
  // Those that are hard to get first.
  for (const auto& [size, count] :
       {std::pair(k1G, of_1g), std::pair(k2M, of_2m)}) {
    if (count == PageCount(0)) continue;
    HP_ASSIGN_OR_RETURN(auto reserved,
                        sys::testing::ReservedPages::Reserve(size, count));
    pages->all_.push_back(
        std::unique_ptr<One>(new One{size, std::move(reserved)}));
  }
  return pages;
}

KernelPages::~KernelPages() {
  while (!all_.empty()) all_.pop_back();
}

const KernelPages::One* KernelPages::Find(PageSize size) const {
  for (const auto& one : all_) {
    if (one->size == size) return one.get();
  }
  return nullptr;
}

PageCount KernelPages::Free(PageSize size) const {
  const One* const one = Find(size);
  return one == nullptr ? PageCount(0) : one->pages.Free();
}

bool KernelPages::WaitForFree(PageSize size, PageCount count) const {
  const One* const one = Find(size);
  return one != nullptr && one->pages.WaitForFree(count);
}

}  // namespace hugepool::testing
