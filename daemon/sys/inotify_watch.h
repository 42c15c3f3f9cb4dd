// HolderWatch by inotify: the kernel tells when a holder is gone.
//
// What a watch on a memfd's inode tells (measured on 6.18, hugetlb and shmem;
// inotify_watch_test.cc shows it):
//   IN_CLOSE_* once per open description, when its last dup, mapping and forked
//     mapping is gone;
//   IN_DELETE_SELF once the inode is freed: its last description is gone, ours
//     and the holders', mappings included. It follows the last IN_CLOSE_*, and
//     the huge pages are then back in the kernel's free list or pinned.
// The watch itself keeps neither the inode nor its pages. So for memory that
// was let go of, IN_DELETE_SELF is the witness that it is free.
#ifndef HUGEPOOL_DAEMON_SYS_INOTIFY_WATCH_H_
#define HUGEPOOL_DAEMON_SYS_INOTIFY_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool::sys {

// Thread-safe, except that destruction excludes all else and must not happen
// on the watch's own thread.
class InotifyWatch : public HolderWatch {
 public:
  // Starts a thread that calls `callback`, one event at a time, with no lock of
  // the watch held: the callback may Add and Remove. EMFILE where the user has
  // too many inotify instances (fs.inotify.max_user_instances).
  static absl::StatusOr<std::unique_ptr<InotifyWatch>> Start(Callback callback);
  // Stops the thread; no callback runs afterwards.
  ~InotifyWatch() override;

  // ENOSPC (RESOURCE_EXHAUSTED) at fs.inotify.max_user_watches. A file that is
  // watched already stays watched once.
  absl::Status Add(HugeFile& file) override;
  // An event that was read already may still be delivered.
  void Remove(InodeId inode) override;
  // A system call only where it changes something.
  absl::Status SetTripwire(HugeFile& file, bool on) override;

  size_t watched() const;

 private:
  InotifyWatch(UniqueFd inotify, UniqueFd stop, Callback callback);

  void Run();
  std::vector<Event> FindDeleted();
  // What `length` bytes of inotify events mean.
  std::vector<Event> Translate(const char* buffer, size_t length);

  const UniqueFd inotify_;
  const UniqueFd stop_;  // an eventfd
  const Callback callback_;
  mutable Mutex mu_;
  // Numbers of watches are not used again soon: an old event finds nothing.
  std::unordered_map<int, InodeId> inode_of_ HP_GUARDED_BY(mu_);
  struct Watch {
    int number = -1;
    bool tripwire = false;
  };
  std::unordered_map<uint64_t, Watch> watch_of_ HP_GUARDED_BY(mu_);
  std::thread thread_;  // last: it uses the rest
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_INOTIFY_WATCH_H_
