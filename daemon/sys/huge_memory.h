// Huge pages as files: everything the daemon asks the kernel about the memory
// it lends. Three implementations: hugetlb memfds (`RealHugeMemory`), ordinary
// memfds where a machine has no huge pages (`kShmem` of the same class), and a
// model of the kernel for tests (`FakeHugeMemory`).
#ifndef HUGEPOOL_DAEMON_SYS_HUGE_MEMORY_H_
#define HUGEPOOL_DAEMON_SYS_HUGE_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/strong_id.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"

namespace hugepool::sys {

// st_ino of an extent's memfd. Unique among living inodes.
using InodeId = StrongId<struct InodeIdTag, uint64_t>;

// What the inode looks like, from fstat and F_GET_SEALS.
struct FileFacts {
  InodeId inode;
  Bytes size;
  Bytes allocated;  // st_blocks * 512
  mode_t mode = 0;  // permission bits only
  uid_t uid = 0;
  // F_SEAL_* bits, without F_SEAL_EXEC: that one says only that the kernel
  // knows MFD_NOEXEC_SEAL.
  int seals = 0;
};

// The answer of a probe: does anybody but the daemon hold the memory?
enum class HolderAnswer {
  kFree,     // nobody has a descriptor or mapping; the probe stays armed
  kBusy,     // somebody does
  kUnknown,  // cannot tell: count as held, or retire
};

// How holders are asked about. Chosen by a self-test at start.
enum class ProbeKind {
  kNone,   // cannot ask: let go of memory at the acknowledgement
  kLease,  // fcntl(F_SETLEASE, F_WRLCK)
  kExec,   // execveat() -> ETXTBSY; reserved, not implemented yet
};
std::string_view ToString(ProbeKind kind);

// What the holder of a descriptor may do with it; F_SEAL_* are set at a grant.
struct GrantSeals {
  bool shrink = false;  // also F_SEAL_SHRINK: vhost-user peers ask for it
};

class HugeFile;

// Bytes of another file.
struct CopyPart {
  HugeFile* source = nullptr;
  Bytes from;    // in the source
  Bytes offset;  // in the file that is filled
  Bytes length;
};

// Makes holes of one file present as copies, without the kernel clearing the new
// pages first. While it lives nothing else touches those holes, and the file
// stays mapped.
class HugeFill {
 public:
  virtual ~HugeFill() = default;

  // The hole at `offset` becomes a page: `parts`, which all lie in it, and zeros
  // elsewhere. Sources are read as by HugeFile::CopyFrom(). Concurrently on
  // separate pages. RESOURCE_EXHAUSTED: the node or the cgroup has no page;
  // DATA_LOSS: a source cannot be read; the hole is one still, after any error.
  virtual absl::Status FillPage(Bytes offset,
                                const std::vector<CopyPart>& parts) = 0;
};

// One extent's memory: the daemon's single counted open description of one
// memfd and, where there is one, its mapping.
//
// Ownership: exactly one work item or caller uses a HugeFile at a time (the
// pool's books say who), except Populate(), Zero(), FindStray() and CopyFrom(),
// which workers call concurrently on separate parts. Destruction closes and
// unmaps; the memory goes back to the kernel with its last holder.
class HugeFile {
 public:
  virtual ~HugeFile() = default;

  virtual InodeId inode() const = 0;
  virtual PageSize page_size() const = 0;
  virtual Bytes size() const = 0;

  // Our own counted description, for inotify and the vault; -1 on the fake.
  // Stays owned by the file; never to be given to a holder.
  virtual int fd() const { return -1; }

  // Grows the file by whole pages. Never shrinks. New pages are holes.
  // FAILED_PRECONDITION while mapped: unmap, grow, map, populate the new part.
  virtual absl::Status Grow(Bytes new_size) = 0;

  // Maps all of the file, read-write and shared, aligned to 1 GiB where it
  // covers whole GiBs (so that a holder can share the page tables) and to its
  // page size otherwise. Binds the range to `node` before anything is
  // populated (policy first, N12). EPERM from the policy call is an error: a
  // placement that cannot be kept is refused, never pretended (N13).
  virtual absl::Status Map(NodeId node) = 0;
  virtual void Unmap() = 0;
  virtual bool mapped() const = 0;

  // The mapped bytes; nullptr when unmapped or on the fake.
  virtual std::byte* data() = 0;

  // Makes the pages of [offset, offset + length) present and zero (holes only;
  // present pages keep their bytes). Needs the mapping. RESOURCE_EXHAUSTED when
  // the node or the cgroup has no page; some pages may be present then (K3).
  virtual absl::Status Populate(Bytes offset, Bytes length) = 0;

  // Writes zeros over [offset, offset + length) through the mapping by the
  // routine that the caller chose; on the fake, by the model. Present pages
  // only. DATA_LOSS where memory could not be written (poisoned, or no page):
  // the range is neither zero nor what it was.
  using ZeroRoutine = void (*)(std::byte* start, size_t length);
  virtual absl::Status Zero(Bytes offset, Bytes length,
                            ZeroRoutine routine) = 0;

  // Bytes that should be zero and are not.
  struct Stray {
    uint64_t count = 0;
    Bytes first;  // where, if there are any
  };
  // Looks for them in [offset, offset + length), multiples of 64, through the
  // mapping. For memory that nobody else can reach: a hole would be filled.
  // DATA_LOSS as for Zero().
  virtual absl::StatusOr<Stray> FindStray(Bytes offset, Bytes length) = 0;

  // Fills [offset, offset + length) of this mapped, populated file with the
  // bytes of `source` from `from` on, which is read through its descriptor:
  // that fills no hole of a file that somebody holds, and faults nothing.
  // Beside any call on `source` but its destruction. DATA_LOSS: the source ends
  // before, or its memory is poisoned.
  virtual absl::Status CopyFrom(HugeFile& source, Bytes from, Bytes offset,
                                Bytes length) = 0;

  // For filling holes of this mapped file. UNIMPLEMENTED where the kernel cannot
  // (HugeMemory::CanFill()).
  virtual absl::StatusOr<std::unique_ptr<HugeFill>> StartFill() = 0;

  // The node of every page, by move_pages: in order of offset. Needs the
  // mapping. FAILED_PRECONDITION where the file has holes.
  virtual absl::StatusOr<std::vector<NodeId>> PageNodes() = 0;

  // A new open description for a holder, read-write: never a dup of ours.
  // Takes the armed probe down first; ABORTED where somebody opened the file
  // since Probe() said free (it must be retired). Must be followed by Seal.
  virtual absl::StatusOr<UniqueFd> OpenForHolder() = 0;

  // Gives the inode to uid:gid (the holder may open it again by path), or takes
  // it back: chown to ourselves, then mode 0600 (a holder may have made it
  // 0666).
  virtual absl::Status GiveInode(uid_t uid, gid_t gid) = 0;
  virtual absl::Status TakeInodeBack() = 0;

  // F_SEAL_GROW | F_SEAL_SEAL, and F_SEAL_SHRINK where asked. Idempotent for
  // equal seals; an error when the seals could not be set (N8).
  virtual absl::Status Seal(GrantSeals seals) = 0;

  virtual absl::StatusOr<FileFacts> Facts() = 0;

  // Asks for holders. kFree leaves the probe armed: until OpenForHolder(),
  // StillArmed() tells whether anybody opened the file since.
  virtual HolderAnswer Probe() = 0;
  virtual bool StillArmed() = 0;

  // Gives every page back to the kernel: ftruncate(0), or a punch where
  // shrinking is sealed. Unmaps. The file is of no more use. Pinned pages stay
  // out of the kernel's free list until unpinned.
  virtual absl::Status GiveBack() = 0;

  // Frees the pages of [offset, offset + length): used by planted defects and,
  // later, by splitting.
  virtual absl::Status Punch(Bytes offset, Bytes length) = 0;

  // True when every byte is zero, read by pread (touches no hole). For tests
  // and verification.
  virtual absl::StatusOr<bool> AllZero() = 0;
};

// Makes HugeFiles. Thread-safe.
class HugeMemory {
 public:
  virtual ~HugeMemory() = default;

  // A file of `pages` holes, mode 0600, sealable, CLOEXEC, not executable, with
  // a re-opened counted description (the one memfd_create returns is not
  // counted by the kernel's lease check, K6). `node` is where its pages will
  // be; nothing is allocated yet. ENODEV/EINVAL/... for a page size that the
  // kernel does not have.
  virtual absl::StatusOr<std::unique_ptr<HugeFile>> Create(PageSize page_size,
                                                           PageCount pages,
                                                           NodeId node) = 0;

  // Finds out by trying which probe tells the truth on this kernel: alone =
  // free, open read-write = busy, open read-only = busy (or known invisible),
  // mapping after close = busy, forked child = busy, all gone = free. Called
  // once at start. Needs no huge page.
  virtual ProbeKind SelfTest() = 0;
  virtual ProbeKind probe_kind() const = 0;

  // Whether StartFill() works for files of this page size. Where a page is too
  // large to be put together in a buffer first, it is not tried.
  virtual bool CanFill(PageSize page_size) const = 0;

  // "hugetlb", "shmem" or "fake".
  virtual std::string_view backend() const = 0;
};

// The first witness: what inotify tells about an extent's inode.
class HolderWatch {
 public:
  struct Event {
    InodeId inode;
    bool opened = false;    // a new description: ours at a grant, or a tripwire
    bool closed = false;    // the last reference of some description is gone
    bool changed = false;   // mode, owner or size changed, or a punch
    bool deleted = false;   // the inode is gone, its memory with it
    bool overflow = false;  // events were lost: ask about everything
  };
  // Called on the watch's own thread (real) or from Deliver() (fake).
  using Callback = std::function<void(const Event&)>;

  virtual ~HolderWatch() = default;
  // Events of one inode arrive in order. Adding costs one kernel watch
  // (fs.inotify.max_user_watches).
  virtual absl::Status Add(HugeFile& file) = 0;
  virtual void Remove(InodeId inode) = 0;
  // Whether `opened` events of this file are told. They are a tripwire for
  // memory that may be reused in place; of any other each would only wake the
  // watch's thread, in the middle of a grant. Off after Add(). On is in force
  // when this returns; off is a hint, which a watch may ignore.
  virtual absl::Status SetTripwire(HugeFile& file, bool on) {
    return absl::OkStatus();
  }
};

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_HUGE_MEMORY_H_
