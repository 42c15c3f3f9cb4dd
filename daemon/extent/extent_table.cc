#include "daemon/extent/extent_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/errno_status.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace hugepool {
namespace {

constexpr uint64_t kMagic = 0x31454c4254505548;  // "HUPTBLE1"
constexpr uint32_t kVersion = 1;

// Newer kernels warn of memfds that do not say whether they may be executed
// (N58); older ones refuse the flag.
UniqueFd NewMemfd() {
  constexpr char kName[] = "hugepool-extents";
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(memfd_create(kName, kFlags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd.reset(memfd_create(kName, kFlags));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExtentTable>> ExtentTable::Create(
    uint32_t capacity) {
  if (capacity == 0 || capacity > (1u << 26)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an extent table of ", capacity, " extents: allowed are 1 to ",
        1u << 26));
  }
  UniqueFd fd = NewMemfd();
  if (!fd.valid()) {
    return ErrnoToStatus(errno, "memfd_create(hugepool-extents)");
  }
  const size_t size = (size_t{capacity} + 1) * sizeof(Slot);
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return ErrnoToStatus(errno, absl::StrCat("ftruncate(extent table, ", size,
                                             ")"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
      0) {
    return ErrnoToStatus(errno, "fcntl(extent table, F_ADD_SEALS)");
  }
  void* base =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) {
    return ErrnoToStatus(errno, absl::StrCat("mmap(extent table, ", size, ")"));
  }
  auto* header = new (base) Header{};
  header->magic = kMagic;
  header->version = kVersion;
  header->slot_bytes = sizeof(Slot);
  header->capacity = capacity;
  return std::unique_ptr<ExtentTable>(
      new ExtentTable(std::move(fd), base, capacity));
}

ExtentTable::ExtentTable(UniqueFd fd, void* base, uint32_t capacity)
    : fd_(std::move(fd)),
      slots_(static_cast<Slot*>(base)),
      capacity_(capacity) {}

ExtentTable::~ExtentTable() {
  munmap(slots_, (size_t{capacity_} + 1) * sizeof(Slot));
}

ExtentTable::Slot& ExtentTable::At(SlotId slot) const {
  HP_CHECK(slot.valid() && slot.value() <= capacity_, "slot out of range");
  return slots_[slot.value()];
}

std::optional<SlotId> ExtentTable::Allocate(const Birth& birth) {
  HP_CHECK(birth.pages.value() > 0 && birth.pages.value() <= UINT32_MAX,
           "an extent has 1 to 2^32 - 1 pages");
  SlotId slot;
  {
    MutexLock lock(&mu_);
    if (!free_.empty()) {
      slot = SlotId(free_.back());
      free_.pop_back();
    } else if (next_fresh_ <= capacity_) {
      slot = SlotId(next_fresh_++);
    } else {
      return std::nullopt;
    }
  }
  Slot& s = At(slot);
  s.lease = 0;
  s.inode = 0;
  s.domain = 0;
  s.pages = static_cast<uint32_t>(birth.pages.value());
  s.node = birth.node.value();
  ++s.births;
  s.page_shift = birth.page_size.shift();
  s.origin = static_cast<uint8_t>(ExtentOrigin::kPopulated);
  s.flags = 0;
  s.gone = 0;
  Move(slot, ExtentState::kEmpty, ExtentState::kPopulating);
  return slot;
}

void ExtentTable::Free(SlotId slot, ExtentState from) {
  Move(slot, from, ExtentState::kEmpty);
  MutexLock lock(&mu_);
  free_.push_back(slot.value());
}

void ExtentTable::Move(SlotId slot, ExtentState from, ExtentState to) {
  HP_CHECK(CanMove(from, to), absl::StrCat("slot ", slot.value(), ": ",
                                           ToString(from), " -> ",
                                           ToString(to)));
  auto expected = static_cast<uint64_t>(from);
  // release: the payload before it, for readers of state() and for a daemon
  // that recovers. relaxed on failure: we die of it.
  const bool moved = At(slot).state.compare_exchange_strong(
      expected, static_cast<uint64_t>(to), std::memory_order_release,
      std::memory_order_relaxed);
  HP_CHECK(moved,
           absl::StrCat("slot ", slot.value(), " is ",
                        ToString(static_cast<ExtentState>(expected & 0xff)),
                        ", not ", ToString(from)));
}

void ExtentTable::set_pages(SlotId slot, PageCount pages) {
  HP_CHECK(pages.value() > 0 && pages.value() <= UINT32_MAX,
           "an extent has 1 to 2^32 - 1 pages");
  At(slot).pages = static_cast<uint32_t>(pages.value());
}

void ExtentTable::set_gone(SlotId slot, PageCount gone) {
  HP_CHECK(gone <= pages(slot), "no more pages are gone than there were");
  At(slot).gone = static_cast<uint32_t>(gone.value());
}

std::vector<SlotId> ExtentTable::Living() const {
  uint32_t end;
  {
    MutexLock lock(&mu_);
    end = next_fresh_;
  }
  std::vector<SlotId> out;
  for (uint32_t i = 1; i < end; ++i) {
    if (state(SlotId(i)) != ExtentState::kEmpty) out.push_back(SlotId(i));
  }
  return out;
}

}  // namespace hugepool
