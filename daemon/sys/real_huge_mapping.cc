// RealHugeFile's mapping: where it lies, on which node its pages are, and how
// they come to be. Its bytes: real_huge_bytes.cc.
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/real_huge_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace hugepool::sys {
namespace {

// The kernel takes one bit more than it says it does (maxnode - 1).
constexpr unsigned kMaxNodes = 1024;
constexpr unsigned kWordBits = 8 * sizeof(unsigned long);
struct NodeMask {
  unsigned long words[kMaxNodes / kWordBits] = {};
  bool Has(NodeId node) const {
    return node.value() < kMaxNodes &&
           (words[node.value() / kWordBits] >> (node.value() % kWordBits) & 1);
  }
  void Add(NodeId node) {
    words[node.value() / kWordBits] |= 1UL << (node.value() % kWordBits);
  }
};

absl::Status PolicyError(int e, const std::string& call) {
  absl::Status status = ErrnoToStatus(e, call);
  if (e != EPERM) return status;
  return Annotate(status,
                  "the placement cannot be kept: a seccomp filter refuses "
                  "memory policies (with CAP_SYS_NICE most let them pass)");
}

// Binds the range before anything is populated (N12).
absl::Status BindTo(void* start, Bytes length, NodeId node) {
  NodeMask allowed;
  if (get_mempolicy(nullptr, allowed.words, kMaxNodes, nullptr,
                    MPOL_F_MEMS_ALLOWED) != 0) {
    // A kernel without NUMA has one node and no policies.
    if (errno == ENOSYS && node == NodeId(0)) return absl::OkStatus();
    return PolicyError(errno, "get_mempolicy(MPOL_F_MEMS_ALLOWED)");
  }
  // A mask outside of the cpuset would be EINVAL, which says nothing (N14).
  if (!allowed.Has(node)) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node.value(),
                     " is not in this process's Mems_allowed: there is no such "
                     "node, or its cpuset does not let it have memory there"));
  }
  NodeMask mask;
  mask.Add(node);
  if (mbind(start, length.value(), MPOL_BIND, mask.words, kMaxNodes, 0) != 0) {
    return PolicyError(
        errno, absl::StrCat("mbind(MPOL_BIND, node ", node.value(), ")"));
  }
  return absl::OkStatus();
}

// Maps all of `fd` at a multiple of `alignment`.
absl::StatusOr<std::byte*> MapAligned(int fd, Bytes length, Bytes alignment) {
  const size_t room = (length + alignment).value();
  const uintptr_t mask = alignment.value() - 1;
  int e = 0;
  // Finds room, gives it up and takes the aligned part of it, unless another
  // thread was faster (EEXIST). MAP_FIXED over the room would take no second
  // try, but where it fails it can leave a gap that is another's by the time
  // we unmap it.
  for (int tries = 0; tries < 100; ++tries) {
    void* const found =
        mmap(nullptr, room, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) {
      e = errno;
      break;
    }
    munmap(found, room);
    const uintptr_t place = (reinterpret_cast<uintptr_t>(found) + mask) & ~mask;
    // No MAP_NORESERVE: the kernel sets pages aside for the holes, and page
    // tables are shared only between mappings of equal flags.
    void* const map =
        mmap(reinterpret_cast<void*>(place), length.value(),
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (map != MAP_FAILED) return static_cast<std::byte*>(map);
    e = errno;
    if (e != EEXIST) break;
  }
  return ErrnoToStatus(e, absl::StrCat("mmap(memfd, ", ToString(length), ")"));
}

absl::Status PopulateError(int e, Bytes offset, Bytes length) {
  return NewPageError(e, absl::StrCat("MADV_POPULATE_WRITE(", ToString(offset),
                                      " + ", ToString(length), ")"));
}

int Madvise(std::byte* start, Bytes length, int advice) {
  while (madvise(start, length.value(), advice) != 0) {
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

}  // namespace

absl::Status NewPageError(int e, const std::string& call) {
  switch (e) {
    case EFAULT:  // what the kernel says when a fault would be SIGBUS (K3)
    case ENOMEM:
      return Annotate(ErrnoToStatus(ENOMEM, call),
                      "the node or the cgroup has no page");
    case EHWPOISON:
      return absl::DataLossError(call + ": poisoned memory");
    default:
      return ErrnoToStatus(e, call);
  }
}

absl::Status RealHugeFile::CheckMappedRange(Bytes offset, Bytes length) const {
  if (!mapped()) return absl::FailedPreconditionError("not mapped");
  if (offset > mapped_size_ || length > mapped_size_ - offset) {
    return absl::OutOfRangeError(
        absl::StrCat(ToString(offset), " + ", ToString(length),
                     " is beyond the ", ToString(mapped_size_), " mapped"));
  }
  return absl::OkStatus();
}

absl::Status RealHugeFile::Map(NodeId node) {
  if (mapped()) return absl::FailedPreconditionError("mapped already");
  const bool whole_gib = size_.value() % GiB(1).value() == 0;
  const Bytes alignment =
      whole_gib ? std::max(GiB(1), page_size_.bytes()) : page_size_.bytes();
  auto map = MapAligned(fd_.get(), size_, alignment);
  if (!map.ok()) return map.status();
  // A policy of the whole mapping does not keep page tables from being shared.
  if (absl::Status bound = BindTo(*map, size_, node); !bound.ok()) {
    munmap(*map, size_.value());
    return bound;
  }
  data_ = *map;
  mapped_size_ = size_;
  if (!hugetlb_) madvise(data_, size_.value(), MADV_HUGEPAGE);
  // Core dumps leave the memory out, but not at the price of shared page
  // tables: VM_DONTDUMP on one side only keeps them apart. There the process's
  // coredump_filter has to do it.
  const bool shareable = hugetlb_ && whole_gib && page_size_.bytes() < GiB(1);
  if (!shareable) madvise(data_, size_.value(), MADV_DONTDUMP);
  return absl::OkStatus();
}

void RealHugeFile::Unmap() {
  if (data_ == nullptr) return;
  munmap(std::exchange(data_, nullptr), mapped_size_.value());
  mapped_size_ = Bytes(0);
}

absl::Status RealHugeFile::Populate(Bytes offset, Bytes length) {
  HP_RETURN_IF_ERROR(CheckMappedRange(offset, length));
  const int e = Madvise(data_ + offset.value(), length, MADV_POPULATE_WRITE);
  return e == 0 ? absl::OkStatus() : PopulateError(e, offset, length);
}

absl::StatusOr<std::vector<NodeId>> RealHugeFile::PageNodes() {
  HP_RETURN_IF_ERROR(CheckMappedRange(Bytes(0), size_));
  auto facts = Facts();
  if (!facts.ok()) return facts.status();
  if (facts->allocated < size_ || facts->size != size_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file has holes: ", ToString(facts->allocated), " of ",
                     ToString(size_), " are there"));
  }
  // move_pages sees only what stands in our page tables, and a holder may have
  // put other pages into the file. With no hole this allocates nothing.
  if (const int e = Madvise(data_, size_, MADV_POPULATE_READ); e != 0) {
    return PopulateError(e, Bytes(0), size_);
  }
  constexpr uint64_t kBatch = 1024;
  const uint64_t pages = page_size_.Floor(size_).value();
  std::vector<NodeId> nodes;
  nodes.reserve(pages);
  for (uint64_t first = 0; first < pages; first += kBatch) {
    void* addresses[kBatch];
    int status[kBatch];
    const uint64_t n = std::min(kBatch, pages - first);
    for (uint64_t i = 0; i < n; ++i) {
      addresses[i] = data_ + page_size_.Of(PageCount(first + i)).value();
    }
    if (move_pages(0, n, addresses, nullptr, status, 0) < 0) {
      return ErrnoToStatus(errno, "move_pages");
    }
    for (uint64_t i = 0; i < n; ++i) {
      if (status[i] < 0) {
        return ErrnoToStatus(-status[i],
                             absl::StrCat("move_pages, page ", first + i));
      }
      nodes.emplace_back(static_cast<uint32_t>(status[i]));
    }
  }
  return nodes;
}

}  // namespace hugepool::sys
