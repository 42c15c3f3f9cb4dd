#include "daemon/sys/testing/reserve_pages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/unique_fd.h"
#include "daemon/sys/sysfs.h"
#include "daemon/sys/sysfs_kernel_pools.h"

namespace hugepool::sys::testing {
namespace {

constexpr char kLockFile[] = "/run/lock/hugepool-test-pages";

// The host's lock, shared by all objects of this process.
struct HostLock {
  UniqueFd fd;
  int users = 0;
};
HostLock& Lock() {
  static HostLock* const lock = new HostLock;
  return *lock;
}

// Puts a counter back to what it was. Never raises it.
void PutBack(NodeId node, PageSize size, PageCount before) {
  SysfsKernelPools pools;
  const auto now = pools.Read(node, size);
  if (!now.ok() || now->total <= before) return;
  const auto set = pools.SetTotal(node, size, before);
  if (!set.ok() || *set > before) {
    std::fprintf(stderr, "cannot put back nr_hugepages of node %u: %s\n",
                 node.value(),
                 set.ok() ? "pages in use" : set.status().ToString().c_str());
  }
}

// "NODE SHIFT TOTAL" a line, for whoever comes after a killed test.
void WriteNote(NodeId node, PageSize size, PageCount before) {
  const std::string line =
      absl::StrCat(node.value(), " ", size.shift(), " ", before.value(), "\n");
  [[maybe_unused]] const ssize_t n =
      write(Lock().fd.get(), line.data(), line.size());
}

void FollowNotes() {
  const auto text = ReadSmallFile(kLockFile);
  if (!text.ok()) return;
  std::vector<std::string> lines =
      absl::StrSplit(*text, '\n', absl::SkipEmpty());
  std::reverse(lines.begin(), lines.end());  // the first note wins
  for (const std::string& line : lines) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    uint32_t node = 0;
    uint32_t shift = 0;
    uint64_t total = 0;
    if (parts.size() == 3 && absl::SimpleAtoi(parts[0], &node) &&
        absl::SimpleAtoi(parts[1], &shift) && shift >= 12 && shift < 63 &&
        absl::SimpleAtoi(parts[2], &total)) {
      PutBack(NodeId(node), PageSize::FromShift(static_cast<uint8_t>(shift)),
              PageCount(total));
    }
  }
}

void EraseNotes() {
  // Opened for appending: the next note starts at the new end.
  [[maybe_unused]] const int r = ftruncate(Lock().fd.get(), 0);
}

absl::Status TakeLock() {
  HostLock& lock = Lock();
  if (lock.users++ > 0) return absl::OkStatus();
  lock.fd.reset(open(kLockFile, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  int failed = lock.fd.valid() ? 0 : errno;
  while (failed == 0 && flock(lock.fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) failed = errno;
  }
  if (failed != 0) {
    lock.users = 0;
    lock.fd.reset();
    return ErrnoToStatus(failed, absl::StrCat("lock ", kLockFile));
  }
  FollowNotes();
  EraseNotes();
  return absl::OkStatus();
}

void ReleaseLock() {
  HostLock& lock = Lock();
  if (--lock.users > 0) return;
  EraseNotes();
  // Explicitly: a forked child may still have the description.
  flock(lock.fd.get(), LOCK_UN);
  lock.fd.reset();
}

// Makes contiguous memory likelier.
void Defragment() {
  sync();
  (void)WriteSmallFile("/proc/sys/vm/drop_caches", "3");
  (void)WriteSmallFile("/proc/sys/vm/compact_memory", "1");
}

// Raises the counter until `count` pages are free.
absl::Status Raise(PageSize size, PageCount count, NodeId node) {
  SysfsKernelPools pools;
  PageCount free;
  for (int tries = 0; tries < 4; ++tries) {
    HP_ASSIGN_OR_RETURN(const KernelCounters now, pools.Read(node, size));
    free = now.free;
    if (free >= count) return absl::OkStatus();
    if (tries > 0) Defragment();
    HP_RETURN_IF_ERROR(
        pools.SetTotal(node, size, now.total + (count - free)).status());
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("node ", node.value(), " gave ", free.value(), " of ",
                   count.value(), " free pages of ", ToString(size)));
}

}  // namespace

absl::StatusOr<ReservedPages> ReservedPages::Reserve(PageSize size,
                                                     PageCount count,
                                                     NodeId node) {
  HP_RETURN_IF_ERROR(TakeLock());
  const auto before = SysfsKernelPools().Read(node, size);
  if (!before.ok()) {
    ReleaseLock();
    return before.status();
  }
  WriteNote(node, size, before->total);
  ReservedPages reserved(size, node, before->total);
  // On failure `reserved` puts everything back.
  HP_RETURN_IF_ERROR(Raise(size, count, node));
  return reserved;
}

ReservedPages::ReservedPages(ReservedPages&& o) noexcept
    : size_(o.size_),
      node_(o.node_),
      before_(o.before_),
      owns_(std::exchange(o.owns_, false)) {}

ReservedPages::~ReservedPages() {
  if (!owns_) return;
  PutBack(node_, size_, before_);
  ReleaseLock();
}

PageCount ReservedPages::Free() const {
  const auto now = SysfsKernelPools().Read(node_, size_);
  return now.ok() ? now->free : PageCount(0);
}

bool ReservedPages::WaitForFree(PageCount count) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (Free() != count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace hugepool::sys::testing
