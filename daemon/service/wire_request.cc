#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

// More than any lease's extents could be.
constexpr int kMaxSegments = 512;
constexpr int kMaxPageSizes = 16;
// The kernel's MAX_NUMNODES.
constexpr int kMaxNodes = 1024;
constexpr uint64_t kMaxBytes = (uint64_t{1} << 63) - 1;
// Longer waits and lives than these are told apart by nobody.
constexpr absl::Duration kLongestWait = absl::Hours(24 * 30);
constexpr absl::Duration kLongestLife = absl::Hours(24 * 365 * 10);

absl::Status Bad(const std::string& what, const std::string& hint) {
  return Refuse(RefusalReason::kBadRequest, what, hint);
}

absl::StatusOr<absl::Duration> FromWire(const google::protobuf::Duration& d) {
  if (d.nanos() <= -1'000'000'000 || d.nanos() >= 1'000'000'000 ||
      d.seconds() < 0 || d.nanos() < 0) {
    return Bad(absl::StrCat("a duration of ", d.seconds(), " s and ", d.nanos(),
                            " ns"),
               "use 0 or more seconds and 0 to 999,999,999 ns");
  }
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

absl::Status PlacementFromWire(const v1::Placement& placement,
                               SegmentRequest* out) {
  switch (placement.mode()) {
    case v1::PLACEMENT_MODE_UNSPECIFIED:
    case v1::PLACEMENT_MODE_ANY:
      out->mode = PlacementMode::kAny;
      break;
    case v1::PLACEMENT_MODE_BIND:
      out->mode = PlacementMode::kBind;
      break;
    case v1::PLACEMENT_MODE_PREFER:
      out->mode = PlacementMode::kPrefer;
      break;
    case v1::PLACEMENT_MODE_INTERLEAVE:
      out->mode = PlacementMode::kInterleave;
      break;
    default:
      return Bad(absl::StrCat("placement mode ",
                              static_cast<int>(placement.mode())),
                 "use BIND, PREFER, INTERLEAVE or ANY");
  }
  if (placement.nodes_size() > kMaxNodes) {
    return Bad(absl::StrCat(placement.nodes_size(), " nodes"),
               absl::StrCat("name at most ", kMaxNodes));
  }
  for (uint32_t node : placement.nodes()) out->nodes.push_back(NodeId(node));
  return absl::OkStatus();
}

std::string List(const std::vector<PageSize>& sizes) {
  return absl::StrJoin(sizes, ", ", [](std::string* out, PageSize size) {
    absl::StrAppend(out, ToString(size));
  });
}

absl::StatusOr<SegmentRequest> SegmentFromWire(
    const v1::Segment& segment, const std::vector<PageSize>& offered) {
  if (segment.size_bytes() == 0) {
    return Bad("a segment of 0 bytes", "say how much memory is wanted");
  }
  if (segment.size_bytes() > kMaxBytes) {
    return Refuse(Refusal{RefusalReason::kNeverFits,
                          Bytes(segment.size_bytes()), Bytes(0),
                          "ask for less"},
                  "a segment of 2^63 bytes or more can never be served");
  }
  if (segment.page_sizes_size() > kMaxPageSizes) {
    return Bad(absl::StrCat(segment.page_sizes_size(), " page sizes"),
               absl::StrCat("name at most ", kMaxPageSizes));
  }
  SegmentRequest out;
  out.size = Bytes(segment.size_bytes());
  for (uint64_t bytes : segment.page_sizes()) {
    const auto size = PageSize::FromBytes(Bytes(bytes));
    if (!size.has_value() || bytes > kMaxBytes / 2) {
      return Refuse(RefusalReason::kUnknownPageSize,
                    absl::StrCat(bytes, " bytes are no page size"),
                    absl::StrCat("page sizes with a pool: ", List(offered)));
    }
    out.page_sizes.push_back(*size);
  }
  out.max_extents = segment.max_extents();
  if (segment.hot_offset() >= segment.size_bytes()) {
    return Bad(absl::StrCat("hot_offset ", segment.hot_offset(),
                            " is outside of the segment of ",
                            segment.size_bytes(), " bytes"),
               "give an offset below size_bytes");
  }
  out.hot = Bytes(segment.hot_offset());
  if (segment.has_copy_from()) {
    const LeaseId source = LeaseIdFromWire(segment.copy_from().lease_id());
    if (!source.valid()) {
      return Bad(absl::StrCat("copy_from of '", segment.copy_from().lease_id(),
                              "', which is no lease id"),
                 "give the lease_id of a lease of the same domain");
    }
    out.copy = CopySource{source, Bytes(segment.copy_from().offset())};
  }
  HP_RETURN_IF_ERROR(PlacementFromWire(segment.placement(), &out));
  return out;
}

absl::StatusOr<Lifetime> LifetimeFromWire(v1::Lifetime lifetime) {
  switch (lifetime) {
    case v1::LIFETIME_UNSPECIFIED:
    case v1::LIFETIME_SESSION:
      return Lifetime::kSession;
    case v1::LIFETIME_MEMORY:
      return Lifetime::kMemory;
    case v1::LIFETIME_NAMED:
      return Lifetime::kNamed;
    default:
      return Bad(absl::StrCat("lifetime ", static_cast<int>(lifetime)),
                 "use SESSION, MEMORY or NAMED");
  }
}

}  // namespace

absl::StatusOr<AcquireSpec> SpecFromWire(
    const v1::AcquireRequest& request, const std::vector<PageSize>& offered) {
  if (request.segments_size() == 0 || request.segments_size() > kMaxSegments) {
    return Bad(absl::StrCat(request.segments_size(), " segments"),
               absl::StrCat("ask for 1 to ", kMaxSegments));
  }
  AcquireSpec spec;
  spec.request_id = request.request_id();
  uint64_t sum = 0;
  for (const v1::Segment& segment : request.segments()) {
    HP_ASSIGN_OR_RETURN(SegmentRequest out, SegmentFromWire(segment, offered));
    if (out.size.value() > kMaxBytes - sum) {
      return Refuse(RefusalReason::kNeverFits,
                    "2^63 bytes or more can never be served", "ask for less");
    }
    sum += out.size.value();
    spec.segments.push_back(std::move(out));
  }
  HP_ASSIGN_OR_RETURN(spec.lifetime, LifetimeFromWire(request.lifetime()));
  HP_ASSIGN_OR_RETURN(absl::Duration max_wait, FromWire(request.max_wait()));
  spec.max_wait = std::min(max_wait, kLongestWait);
  if (request.has_time_to_live()) {
    HP_ASSIGN_OR_RETURN(absl::Duration life, FromWire(request.time_to_live()));
    if (life <= kLongestLife) spec.time_to_live = life;
  }
  spec.name = request.name();
  spec.sealed = request.sealed();
  spec.reopenable = request.reopenable();
  spec.is_private = request.private_();
  for (const auto& [key, value] : request.labels()) spec.labels[key] = value;
  return spec;
}

absl::StatusOr<std::optional<LeasePhase>> PhaseFromWire(v1::LeaseState state) {
  if (state == v1::LEASE_STATE_UNSPECIFIED) return std::nullopt;
  if (!v1::LeaseState_IsValid(state)) {
    return Bad(absl::StrCat("lease state ", static_cast<int>(state)),
               "use GRANTED, HELD, ORPHANED or RETURNING");
  }
  return static_cast<LeasePhase>(state);
}

}  // namespace hugepool::service
