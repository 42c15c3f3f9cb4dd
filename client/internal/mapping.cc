#include "client/internal/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

// The kernel stops a little before the limit: one mmap can split its
// neighbours. Anything this close counts as "the limit is the cause".
constexpr uint64_t kMapCountSlack = 8;
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr char kFewerExtents[] = "ask for fewer, larger extents";

bool IsGibs(uint64_t n) { return n != 0 && n % GiB(1).value() == 0; }

// Where a piece of whole GiBs is likely to find room; 0: nowhere known.
// relaxed: the kernel says whether there is room.
std::atomic<uintptr_t> g_hint{0};

void SetHint(uintptr_t address) {
  if (IsGibs(address)) g_hint.store(address, std::memory_order_relaxed);
}

absl::Status CheckCover(Bytes size, PageSize page_size,
                        absl::Span<const MapPiece> pieces) {
  const uint64_t page_mask = page_size.bytes().value() - 1;
  uint64_t at = 0;
  for (const MapPiece& piece : pieces) {
    if (piece.offset.value() != at || piece.size.value() == 0 ||
        (piece.size.value() & page_mask) != 0 ||
        piece.size.value() > size.value() - at) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an extent of ", ToString(piece.size), " at offset ",
          piece.offset.value(), " does not fit into a segment of ",
          ToString(size), " of which ", ToString(Bytes(at)), " are covered"));
    }
    at += piece.size.value();
  }
  if (at != size.value() || at == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the extents cover ", ToString(Bytes(at)),
                     " of a segment of ", ToString(size)));
  }
  return absl::OkStatus();
}

uint64_t CountMappings() {
  std::ifstream maps("/proc/self/maps");
  uint64_t lines = 0;
  char chunk[16384];
  while (maps.read(chunk, sizeof chunk) || maps.gcount() > 0) {
    lines += std::count(chunk, chunk + maps.gcount(), '\n');
  }
  return lines;
}

absl::Status MapError(int error_number, std::string_view what,
                      const char* advice) {
  const absl::Status status = ErrnoToStatus(error_number, what);
  if (error_number != ENOMEM) return status;
  uint64_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  const uint64_t mappings = CountMappings();
  if (limit == 0 || mappings + kMapCountSlack < limit) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(),
                     ": the address space is limited (see RLIMIT_AS)"));
  }
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), ": this process has ", mappings,
                   " mappings and vm.max_map_count is ", limit, ": ", advice,
                   " or raise the limit (sysctl vm.max_map_count)"));
}

// Address space of `size` bytes at a multiple of `align`, not yet usable.
absl::StatusOr<uintptr_t> Reserve(uint64_t size, uint64_t align) {
  const uint64_t total = size + align;
  if (total < size) {
    return absl::InvalidArgumentError("the segment is too large to map");
  }
  void* p = mmap(nullptr, total, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    const int error_number = errno;
    return MapError(error_number,
                    absl::StrCat("mmap(reserve ", ToString(Bytes(total)), ")"),
                    kFewerExtents);
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(p);
  const uintptr_t base = (begin + align - 1) & ~(align - 1);
  if (base != begin) munmap(p, base - begin);
  const uintptr_t end = begin + total;
  if (end != base + size) {
    munmap(reinterpret_cast<void*>(base + size), end - base - size);
  }
  return base;
}

// Maps the pieces over the address space from `base` on.
absl::Status Fill(uintptr_t base, absl::Span<const MapPiece> pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    void* const want = reinterpret_cast<void*>(base + pieces[i].offset.value());
    if (mmap(want, pieces[i].size.value(), kProtection, MAP_SHARED | MAP_FIXED,
             pieces[i].fd, 0) == MAP_FAILED) {
      const int error_number = errno;
      return MapError(error_number,
                      absl::StrCat("mmap(extent ", i + 1, " of ", pieces.size(),
                                   ", ", ToString(pieces[i].size), ")"),
                      kFewerExtents);
    }
  }
  return absl::OkStatus();
}

}  // namespace

MappedRange MapWhole(const MapPiece& piece, Bytes align) {
  void* const p =
      mmap(nullptr, piece.size.value(), kProtection, MAP_SHARED, piece.fd, 0);
  if (p == MAP_FAILED) return MappedRange();
  MappedRange range(p, piece.size);
  if (reinterpret_cast<uintptr_t>(p) % align.value() != 0) range.Reset();
  return range;
}

MappedRange MapAtHint(const MapPiece& piece) {
  const uintptr_t hint = g_hint.load(std::memory_order_relaxed);
  if (hint == 0 || !IsGibs(piece.size.value())) return MappedRange();
  void* const want = reinterpret_cast<void*>(hint);
  void* const p = mmap(want, piece.size.value(), kProtection,
                       MAP_SHARED | MAP_FIXED_NOREPLACE, piece.fd, 0);
  if (p == MAP_FAILED) return MappedRange();
  MappedRange range(p, piece.size);
  // Kernels before 4.17 take it for a wish.
  if (p != want) range.Reset();
  return range;
}

MappedRange& MappedRange::operator=(MappedRange&& o) noexcept {
  if (this != &o) {
    Reset();
    address_ = std::exchange(o.address_, nullptr);
    size_ = std::exchange(o.size_, Bytes());
  }
  return *this;
}

void MappedRange::Reset() {
  if (address_ != nullptr) munmap(address_, size_.value());
  if (IsGibs(size_.value())) SetHint(reinterpret_cast<uintptr_t>(address_));
  address_ = nullptr;
  size_ = Bytes();
}

absl::Status MappedRange::SetAccess(Bytes offset, Bytes size, Access access) {
  if (offset > size_ || size > size_ - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(size), " from offset ", offset.value(),
                     " are not in a mapping of ", ToString(size_)));
  }
  if (mprotect(static_cast<char*>(address_) + offset.value(), size.value(),
               access == Access::kNone ? PROT_NONE : kProtection) == 0) {
    return absl::OkStatus();
  }
  const int error_number = errno;
  return MapError(error_number,
                  absl::StrCat("mprotect(", ToString(size), ", offset ",
                               offset.value(), ")"),
                  "release fewer, larger ranges");
}

absl::StatusOr<MappedRange> MapPieces(Bytes size, PageSize page_size,
                                      absl::Span<const MapPiece> pieces,
                                      bool dontfork) {
  HP_RETURN_IF_ERROR(CheckCover(size, page_size, pieces));
  const Bytes align =
      size >= GiB(1) ? std::max(GiB(1), page_size.bytes()) : page_size.bytes();
  MappedRange range;
  if (pieces.size() == 1 && align == page_size.bytes()) {
    range = MapWhole(pieces[0], align);
  } else if (pieces.size() == 1 && align == GiB(1)) {
    range = MapAtHint(pieces[0]);
  }
  if (range.address() == nullptr) {
    HP_ASSIGN_OR_RETURN(const uintptr_t base,
                        Reserve(size.value(), align.value()));
    range = MappedRange(reinterpret_cast<void*>(base), size);
    HP_RETURN_IF_ERROR(Fill(base, pieces));
  }
  const auto begin = reinterpret_cast<uintptr_t>(range.address());
  if (IsGibs(size.value()) && begin > size.value()) {
    SetHint(begin - size.value());
  }
  if (dontfork && madvise(range.address(), size.value(), MADV_DONTFORK) != 0) {
    const int error_number = errno;
    return ErrnoToStatus(error_number, "madvise(MADV_DONTFORK)");
  }
  return range;
}

}  // namespace hugepool::client
