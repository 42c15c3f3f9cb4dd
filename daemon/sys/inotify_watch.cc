#include "daemon/sys/inotify_watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"

namespace hugepool::sys {
namespace {

constexpr uint32_t kMask = IN_CLOSE | IN_ATTRIB | IN_MODIFY | IN_DELETE_SELF;

}  // namespace

absl::StatusOr<std::unique_ptr<InotifyWatch>> InotifyWatch::Start(
    Callback callback) {
  UniqueFd inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) return ErrnoToStatus(errno, "inotify_init1");
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return ErrnoToStatus(errno, "eventfd");
  auto watch = absl::WrapUnique(new InotifyWatch(
      std::move(inotify), std::move(stop), std::move(callback)));
  // Signals are for other threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watch->thread_ = std::thread([w = watch.get()] { w->Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(watch->thread_.native_handle(), "hp-inotify");
  return watch;
}

InotifyWatch::InotifyWatch(UniqueFd inotify, UniqueFd stop, Callback callback)
    : inotify_(std::move(inotify)),
      stop_(std::move(stop)),
      callback_(std::move(callback)) {}

InotifyWatch::~InotifyWatch() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

absl::Status InotifyWatch::Add(HugeFile& file) {
  const std::string path = absl::StrCat("/proc/self/fd/", file.fd());
  // Nobody but us has the file yet, so no event is missed in between.
  const int wd = inotify_add_watch(inotify_.get(), path.c_str(), kMask);
  if (wd < 0) return ErrnoToStatus(errno, "inotify_add_watch(" + path + ")");
  MutexLock lock(&mu_);
  inode_of_[wd] = file.inode();
  watch_of_[file.inode().value()] = {.number = wd};
  return absl::OkStatus();
}

void InotifyWatch::Remove(InodeId inode) {
  int wd = -1;
  {
    MutexLock lock(&mu_);
    const auto it = watch_of_.find(inode.value());
    if (it == watch_of_.end()) return;
    wd = it->second.number;
    inode_of_.erase(wd);
    watch_of_.erase(it);
  }
  // EINVAL where the kernel has removed it, its inode being gone.
  inotify_rm_watch(inotify_.get(), wd);
}

absl::Status InotifyWatch::SetTripwire(HugeFile& file, bool on) {
  {
    MutexLock lock(&mu_);
    const auto it = watch_of_.find(file.inode().value());
    if (it == watch_of_.end()) {
      return absl::FailedPreconditionError("the file is not watched");
    }
    if (it->second.tripwire == on) return absl::OkStatus();
  }
  const std::string path = absl::StrCat("/proc/self/fd/", file.fd());
  // A second watch of an inode replaces the mask of the first.
  if (inotify_add_watch(inotify_.get(), path.c_str(),
                        on ? kMask | uint32_t{IN_OPEN} : kMask) < 0) {
    return ErrnoToStatus(errno, "inotify_add_watch(" + path + ")");
  }
  // Only whoever has the file to himself calls this, so nobody was faster.
  MutexLock lock(&mu_);
  const auto it = watch_of_.find(file.inode().value());
  if (it != watch_of_.end()) it->second.tripwire = on;
  return absl::OkStatus();
}

size_t InotifyWatch::watched() const {
  MutexLock lock(&mu_);
  return inode_of_.size();
}

void InotifyWatch::Run() {
  alignas(inotify_event) char buffer[64 << 10];
  for (;;) {
    pollfd fds[] = {{.fd = inotify_.get(), .events = POLLIN, .revents = 0},
                    {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) {
      Log(LogLevel::kError, absl::StrCat("inotify: poll: errno ", errno));
      return;
    }
    if (fds[1].revents != 0) return;
    const ssize_t n = read(inotify_.get(), buffer, sizeof(buffer));
    if (n <= 0) continue;  // EAGAIN, EINTR
    bool lost = false;
    for (const Event& event : Translate(buffer, static_cast<size_t>(n))) {
      callback_(event);
      lost = lost || event.overflow;
    }
    if (!lost) continue;
    for (const Event& event : FindDeleted()) callback_(event);
  }
}

// After an overflow the end of an inode may be among what was lost, and for
// memory that was let go there is no other witness. The kernel lists the watches
// that live: an inode whose watch is gone is gone itself.
std::vector<HolderWatch::Event> InotifyWatch::FindDeleted() {
  std::unordered_map<int, InodeId> before;
  {
    MutexLock lock(&mu_);
    before = inode_of_;
  }
  std::ifstream info(absl::StrCat("/proc/self/fdinfo/", inotify_.get()));
  if (!info) {
    Log(LogLevel::kError, "inotify: cannot read the list of watches");
    return {};
  }
  for (std::string line; std::getline(info, line);) {
    int wd = 0;
    if (std::sscanf(line.c_str(), "inotify wd:%x", &wd) == 1) before.erase(wd);
  }
  std::vector<Event> events;
  for (const auto& [wd, inode] : before) {
    events.push_back({.inode = inode, .deleted = true});
  }
  return events;
}

std::vector<HolderWatch::Event> InotifyWatch::Translate(const char* buffer,
                                                        size_t length) {
  std::vector<Event> events;
  MutexLock lock(&mu_);
  for (size_t at = 0; at + sizeof(inotify_event) <= length;) {
    inotify_event raw;
    std::memcpy(&raw, buffer + at, sizeof(raw));
    at += sizeof(raw) + raw.len;
    if ((raw.mask & IN_Q_OVERFLOW) != 0) {
      events.push_back({.overflow = true});
      continue;
    }
    const auto it = inode_of_.find(raw.wd);
    if (it == inode_of_.end()) continue;  // removed meanwhile
    if ((raw.mask & IN_IGNORED) != 0) {   // the last event of a watch
      const auto by_inode = watch_of_.find(it->second.value());
      // The number may be that of a new file by now.
      if (by_inode != watch_of_.end() && by_inode->second.number == raw.wd) {
        watch_of_.erase(by_inode);
      }
      inode_of_.erase(it);
      continue;
    }
    events.push_back({.inode = it->second,
                      .opened = (raw.mask & IN_OPEN) != 0,
                      .closed = (raw.mask & IN_CLOSE) != 0,
                      .changed = (raw.mask & (IN_ATTRIB | IN_MODIFY)) != 0,
                      .deleted = (raw.mask & IN_DELETE_SELF) != 0});
  }
  return events;
}

}  // namespace hugepool::sys
