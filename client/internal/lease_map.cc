#include "client/internal/lease_map.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {

absl::Status CheckExtents(const v1::Lease& lease,
                          const std::vector<UniqueFd>& fds) {
  if (static_cast<size_t>(lease.extents_size()) != fds.size()) {
    return absl::InternalError(
        absl::StrCat("lease ", lease.lease_id(), " has ", lease.extents_size(),
                     " extents, but ", fds.size(), " descriptors came"));
  }
  for (size_t i = 0; i < fds.size(); ++i) {
    const v1::Extent& extent = lease.extents(static_cast<int>(i));
    struct stat st;
    if (fstat(fds[i].get(), &st) != 0) {
      const int error_number = errno;
      return ErrnoToStatus(error_number, "fstat(extent)");
    }
    if (extent.inode() != 0 && extent.inode() != st.st_ino) {
      return absl::InternalError(absl::StrCat(
          "descriptor ", i, " of lease ", lease.lease_id(), " is inode ",
          st.st_ino, ", but its extent has ", extent.inode()));
    }
    if (extent.segment() >= static_cast<uint32_t>(lease.segments_size()) ||
        static_cast<uint64_t>(st.st_size) < extent.size_bytes()) {
      return absl::InternalError(absl::StrCat(
          "extent ", i, " of lease ", lease.lease_id(), " (",
          extent.size_bytes(), " bytes in segment ", extent.segment(),
          ") does not match its descriptor of ", st.st_size, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MappedRange>> MapLease(
    const v1::Lease& lease, const std::vector<UniqueFd>& fds, bool dontfork) {
  std::vector<std::vector<MapPiece>> pieces(lease.segments_size());
  for (size_t i = 0; i < fds.size(); ++i) {
    const v1::Extent& extent = lease.extents(static_cast<int>(i));
    pieces[extent.segment()].push_back({.fd = fds[i].get(),
                                        .offset = Bytes(extent.offset()),
                                        .size = Bytes(extent.size_bytes())});
  }
  std::vector<MappedRange> ranges;
  ranges.reserve(pieces.size());
  for (size_t s = 0; s < pieces.size(); ++s) {
    const v1::GrantedSegment& segment = lease.segments(static_cast<int>(s));
    const auto page_size = PageSize::FromBytes(Bytes(segment.page_size()));
    if (!page_size.has_value()) {
      return absl::InternalError(absl::StrCat(
          "segment ", s, " has a page size of ", segment.page_size()));
    }
    std::sort(pieces[s].begin(), pieces[s].end(),
              [](const MapPiece& a, const MapPiece& b) {
                return a.offset < b.offset;
              });
    auto range = MapPieces(Bytes(segment.granted_bytes()), *page_size,
                           pieces[s], dontfork);
    if (!range.ok()) {
      return Annotate(range.status(), absl::StrCat("mapping segment ", s));
    }
    ranges.push_back(*std::move(range));
  }
  return ranges;
}

}  // namespace hugepool::client
