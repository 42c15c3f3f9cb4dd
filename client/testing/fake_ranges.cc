#include "client/testing/fake_ranges.h"

#include <fcntl.h>

#include <cstdlib>

#include "absl/status/status.h"
#include "client/testing/fake_admin.h"

namespace hugepool::testing {
namespace {

grpc::Status Bad(const char* text) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_BAD_REQUEST);
  detail.set_hint("mind the pages");
  return MakeStatus(absl::StatusCode::kInvalidArgument, text, detail);
}

void Punch(const v1::Lease& lease, const std::vector<UniqueFd>& fds,
           uint32_t segment, uint64_t offset) {
  for (int i = 0; i < lease.extents_size(); ++i) {
    const v1::Extent& extent = lease.extents(i);
    if (extent.segment() != segment || offset < extent.offset() ||
        offset - extent.offset() >= extent.size_bytes()) {
      continue;
    }
    if (fallocate(fds[i].get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(offset - extent.offset()),
                  static_cast<off_t>(extent.page_size())) != 0) {
      std::abort();
    }
    return;
  }
  std::abort();
}

}  // namespace

grpc::Status FakeRanges::Release(const v1::Lease& lease,
                                 const std::vector<UniqueFd>& fds,
                                 const v1::ReleaseRequest& request,
                                 v1::ReleaseResponse* response) {
  std::set<std::pair<uint32_t, uint64_t>> pages;
  uint64_t bytes = 0;
  for (const auto& range : request.ranges()) {
    if (range.segment() >= static_cast<uint32_t>(lease.segments_size())) {
      return Bad("the daemon knows no such segment");
    }
    const auto& segment = lease.segments(static_cast<int>(range.segment()));
    const uint64_t page = segment.page_size();
    if (range.size_bytes() == 0) return Bad("the daemon sees an empty range");
    if (range.offset() % page != 0 || range.size_bytes() % page != 0) {
      return Bad("the daemon sees half a page");
    }
    if (range.size_bytes() > segment.granted_bytes() ||
        range.offset() > segment.granted_bytes() - range.size_bytes()) {
      return Bad("the daemon sees the segment's end");
    }
    for (uint64_t at = 0; at < range.size_bytes(); at += page) {
      if (!pages.emplace(range.segment(), range.offset() + at).second) {
        return Bad("the daemon sees a page twice");
      }
    }
    bytes += range.size_bytes();
  }
  for (const auto& page : pages) {
    if (pages_.count(page) != 0) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                          "the daemon has that page already");
    }
  }
  for (const auto& page : pages) Punch(lease, fds, page.first, page.second);
  pages_.merge(pages);
  response->set_released_bytes(bytes);
  return grpc::Status::OK;
}

}  // namespace hugepool::testing
