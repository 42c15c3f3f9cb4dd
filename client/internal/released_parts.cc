#include "client/internal/released_parts.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/errors.h"
#include "daemon/base/errno_status.h"

namespace hugepool::client {
namespace {

// The words are the daemon's.
std::string Text(const LeaseRange& r) {
  return absl::StrCat(r.size.value(), " bytes from byte ", r.offset.value(),
                      " of segment ", r.segment);
}

absl::Status Bad(const std::string& what, const char* hint) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_BAD_REQUEST);
  detail.set_hint(hint);
  return WithDetail(absl::InvalidArgumentError(what), detail);
}

absl::Status BadRange(const LeaseRange& r, const std::string& what,
                      const char* hint) {
  return Bad(absl::StrCat("ranges: ", Text(r), " ", what), hint);
}

Bytes EndOf(const LeaseRange& r) { return r.offset + r.size; }

// Afterwards the end of the range is known not to overflow.
absl::Status CheckOne(const v1::Lease& lease, const LeaseRange& r) {
  if (r.segment >= static_cast<uint32_t>(lease.segments_size())) {
    return BadRange(r, "is no segment of the lease",
                    "segments are counted from 0");
  }
  const auto& segment = lease.segments(static_cast<int>(r.segment));
  const uint64_t page = segment.page_size();
  if (page == 0 || r.size == Bytes() || r.offset.value() % page != 0 ||
      r.size.value() % page != 0) {
    return BadRange(
        r, absl::StrCat("are not whole pages of ", ToString(Bytes(page))),
        "only whole pages can be given up");
  }
  if (r.offset.value() > segment.granted_bytes() ||
      r.size.value() > segment.granted_bytes() - r.offset.value()) {
    return BadRange(r, "are not in it", "the segment is shorter");
  }
  return absl::OkStatus();
}

// `ranges` in order and joined.
absl::StatusOr<std::vector<LeaseRange>> Join(std::vector<LeaseRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<LeaseRange> joined;
  for (const LeaseRange& r : ranges) {
    if (joined.empty() || joined.back().segment != r.segment ||
        EndOf(joined.back()) < r.offset) {
      joined.push_back(r);
    } else if (EndOf(joined.back()) == r.offset) {
      joined.back().size += r.size;
    } else {
      return BadRange(r, absl::StrCat("overlap ", Text(joined.back())),
                      "name each page once");
    }
  }
  return joined;
}

}  // namespace

absl::StatusOr<ReleasedParts::Checked> ReleasedParts::Check(
    const v1::Lease& lease, absl::Span<const LeaseRange> ranges) const {
  if (ranges.empty()) {
    return Bad("no ranges to release were given",
               "name some, or release the lease as a whole");
  }
  for (const LeaseRange& r : ranges) HP_RETURN_IF_ERROR(CheckOne(lease, r));
  Checked checked;
  HP_ASSIGN_OR_RETURN(checked.ranges, Join({ranges.begin(), ranges.end()}));
  if (checked.ranges.size() > kMaxRanges) {
    return Bad(absl::StrCat(checked.ranges.size(),
                            " ranges that do not touch, of which one call "
                            "takes ",
                            kMaxRanges),
               "release them in several calls");
  }
  checked.repeated = std::find(unanswered_.begin(), unanswered_.end(),
                               checked.ranges) != unanswered_.end();
  if (checked.repeated) return checked;
  for (const LeaseRange& r : checked.ranges) {
    const auto parts = parts_.find(r.segment);
    if (parts == parts_.end()) continue;
    // The last one that begins before the end of `r`.
    auto before = parts->second.lower_bound(EndOf(r));
    if (before == parts->second.begin()) continue;
    --before;
    if (before->first + before->second <= r.offset) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("ranges: a page of ", Text(r), " was released before"));
  }
  return checked;
}

void ReleasedParts::Add(const Checked& checked, bool answered) {
  if (checked.repeated) {
    if (answered) std::erase(unanswered_, checked.ranges);
    return;
  }
  if (!answered) unanswered_.push_back(checked.ranges);
  for (const LeaseRange& r : checked.ranges) {
    auto& parts = parts_[r.segment];
    auto at = parts.emplace(r.offset, r.size).first;
    if (const auto next = std::next(at);
        next != parts.end() && EndOf(r) == next->first) {
      at->second += next->second;
      parts.erase(next);
    }
    if (at == parts.begin()) continue;
    const auto last = std::prev(at);
    if (last->first + last->second != at->first) continue;
    last->second += at->second;
    parts.erase(at);
  }
}

}  // namespace hugepool::client
