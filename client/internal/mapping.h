// One contiguous range of memory out of several descriptors.
#ifndef HUGEPOOL_CLIENT_INTERNAL_MAPPING_H_
#define HUGEPOOL_CLIENT_INTERNAL_MAPPING_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/base/units.h"

namespace hugepool::client {

// A piece of a segment: `size` bytes from the start of `fd`, to be seen at
// `offset` within the segment. Borrows the descriptor.
struct MapPiece {
  int fd = -1;
  Bytes offset;
  Bytes size;
};

enum class Access { kNone, kReadWrite };

// Owns a mapped range; unmaps it at the end of its life. Move-only.
class MappedRange {
 public:
  MappedRange() = default;
  MappedRange(MappedRange&& o) noexcept
      : address_(std::exchange(o.address_, nullptr)),
        size_(std::exchange(o.size_, Bytes())) {}
  MappedRange& operator=(MappedRange&& o) noexcept;
  ~MappedRange() { Reset(); }

  // nullptr where nothing is mapped.
  void* address() const { return address_; }
  Bytes size() const { return size_; }
  // Unmaps. `size` is always whole huge pages (what was granted, not what was
  // asked for), so munmap cannot refuse it.
  void Reset();
  // What the process may do with a part of the range, in whole pages. A part
  // that is not for use stays mapped: nothing else gets its addresses.
  // RESOURCE_EXHAUSTED: the kernel has no more mappings for this process to cut
  // the range into; some of the part may be changed then.
  absl::Status SetAccess(Bytes offset, Bytes size, Access access);

 private:
  friend absl::StatusOr<MappedRange> MapPieces(Bytes, PageSize,
                                               absl::Span<const MapPiece>,
                                               bool);
  friend MappedRange MapWhole(const MapPiece&, Bytes);
  friend MappedRange MapAtHint(const MapPiece&);
  MappedRange(void* address, Bytes size) : address_(address), size_(size) {}

  void* address_ = nullptr;
  Bytes size_;
};

// Maps `pieces`, which must cover [0, size) without gaps in ascending order,
// shared, for reading and writing, into one range.
//
// The range begins at a multiple of 1 GiB when it is at least that long, else
// at a multiple of `page_size`. At such an address, with one plain mmap over a
// whole GiB of 2 MiB pages, the kernel lets the client share the daemon's
// page tables, so that nothing needs to be faulted in. That is why no flag and
// no advice is given here unless asked: any difference between the two
// mappings forbids the sharing, `dontfork` (MADV_DONTFORK) included.
//
// INVALID_ARGUMENT: the pieces do not cover the range. RESOURCE_EXHAUSTED:
// mmap's ENOMEM; the message names vm.max_map_count where that is the cause.
// Nothing stays mapped on an error.
absl::StatusOr<MappedRange> MapPieces(Bytes size, PageSize page_size,
                                      absl::Span<const MapPiece> pieces,
                                      bool dontfork);

// Maps one piece where the kernel likes, which saves reserving address space:
// it aligns huge pages by itself. Empty where it failed or is not aligned.
MappedRange MapWhole(const MapPiece& piece, Bytes align);

// Maps one piece of whole GiBs where the last one that was unmapped stood, or
// below the last one that was mapped: one system call instead of the four that
// finding an aligned place takes. Empty where something is there. Thread-safe.
MappedRange MapAtHint(const MapPiece& piece);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_MAPPING_H_
