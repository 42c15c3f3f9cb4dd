#include "client/internal/request.h"

#include <algorithm>
#include <memory>
#include <string>

#include "client/internal/nearest_memory.h"

namespace {

using hugepool::v1::AcquireRequest;

constexpr size_t kRequestOptionsV1 = sizeof(hp_request_options);
constexpr size_t kSegmentOptionsV1 = sizeof(hp_segment_options);
constexpr uint32_t kKnownFlags = HP_REQUEST_NO_MAP | HP_REQUEST_DONTFORK |
                                 HP_REQUEST_SEALED | HP_REQUEST_REOPENABLE |
                                 HP_REQUEST_PRIVATE;
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 62;

void SetDuration(uint64_t ms, google::protobuf::Duration* out) {
  const absl::Duration d = hugepool::client::FromMilliseconds(ms);
  const int64_t seconds = absl::ToInt64Seconds(d);
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(d - absl::Seconds(seconds))));
}

int Refuse(const char* message, hp_error* error) {
  if (error != nullptr && error->size >= sizeof(hp_error)) {
    const size_t size = error->size;
    *error = hp_error{};
    error->size = size;
    error->code = HP_INVALID_ARGUMENT;
    std::string(message).copy(error->message, sizeof error->message - 1);
  }
  return HP_INVALID_ARGUMENT;
}

hugepool::v1::PlacementMode ModeOf(int32_t placement) {
  switch (placement) {
    case HP_PLACEMENT_ANY:
      return hugepool::v1::PLACEMENT_MODE_ANY;
    case HP_PLACEMENT_BIND:
      return hugepool::v1::PLACEMENT_MODE_BIND;
    case HP_PLACEMENT_PREFER:
      return hugepool::v1::PLACEMENT_MODE_PREFER;
    case HP_PLACEMENT_INTERLEAVE:
      return hugepool::v1::PLACEMENT_MODE_INTERLEAVE;
    default:
      return hugepool::v1::PLACEMENT_MODE_UNSPECIFIED;
  }
}

}  // namespace

extern "C" {

int hp_request_new(const hp_request_options* options, hp_request** out,
                   hp_error* error) {
  if (out == nullptr) return Refuse("request is NULL", error);
  *out = nullptr;
  const hp_request_options defaults = HP_REQUEST_OPTIONS_INIT;
  if (options == nullptr) options = &defaults;
  if (options->size < kRequestOptionsV1) {
    return Refuse("hp_request_options has no valid size", error);
  }
  if ((options->flags & ~kKnownFlags) != 0) {
    return Refuse("unknown flag", error);
  }
  if (options->lifetime < HP_LIFETIME_SESSION ||
      options->lifetime > HP_LIFETIME_NAMED) {
    return Refuse("unknown lifetime", error);
  }
  auto request = std::make_unique<hp_request>();
  request->flags = options->flags;
  AcquireRequest& proto = request->proto;
  proto.set_lifetime(static_cast<hugepool::v1::Lifetime>(options->lifetime));
  if (options->max_wait_ms != 0) {
    SetDuration(options->max_wait_ms, proto.mutable_max_wait());
  }
  if (options->time_to_live_ms != 0) {
    SetDuration(options->time_to_live_ms, proto.mutable_time_to_live());
  }
  if (options->name != nullptr) proto.set_name(options->name);
  proto.set_sealed((options->flags & HP_REQUEST_SEALED) != 0);
  proto.set_reopenable((options->flags & HP_REQUEST_REOPENABLE) != 0);
  proto.set_private_((options->flags & HP_REQUEST_PRIVATE) != 0);
  *out = request.release();
  return HP_OK;
}

int hp_request_add_segment(hp_request* request,
                           const hp_segment_options* segment, hp_error* error) {
  if (request == nullptr) return Refuse("request is NULL", error);
  if (segment == nullptr || segment->size < kSegmentOptionsV1) {
    return Refuse("hp_segment_options has no valid size", error);
  }
  if (segment->bytes == 0 || segment->bytes > kMaxSegmentBytes) {
    return Refuse("a segment has between 1 and 2^62 bytes", error);
  }
  const auto mode = ModeOf(segment->placement);
  if (mode == hugepool::v1::PLACEMENT_MODE_UNSPECIFIED) {
    return Refuse("unknown placement", error);
  }
  if (segment->node_count == 0 && (segment->placement == HP_PLACEMENT_BIND ||
                                   segment->placement == HP_PLACEMENT_PREFER)) {
    return Refuse("BIND and PREFER need at least one node", error);
  }
  hugepool::v1::Segment* const out = request->proto.add_segments();
  out->set_size_bytes(segment->bytes);
  out->set_hot_offset(segment->hot_offset);
  out->set_max_extents(segment->max_extents);
  if (segment->copy_from != nullptr) {
    out->mutable_copy_from()->set_lease_id(segment->copy_from);
    out->mutable_copy_from()->set_offset(segment->copy_offset);
  }
  for (size_t i = 0; i < segment->page_size_count; ++i) {
    out->add_page_sizes(segment->page_sizes[i]);
  }
  out->mutable_placement()->set_mode(mode);
  for (size_t i = 0; i < segment->node_count; ++i) {
    out->mutable_placement()->add_nodes(segment->nodes[i]);
  }
  return HP_OK;
}

int hp_request_add_label(hp_request* request, const char* key,
                         const char* value, hp_error* error) {
  if (request == nullptr) return Refuse("request is NULL", error);
  if (key == nullptr || *key == '\0' || value == nullptr) {
    return Refuse("a label has a key and a value", error);
  }
  (*request->proto.mutable_labels())[key] = value;
  return HP_OK;
}

void hp_request_free(hp_request* request) { delete request; }

}  // extern "C"

namespace hugepool::client {

v1::AcquireRequest BuildRequest(const hp_request& request) {
  v1::AcquireRequest proto = request.proto;
  for (v1::Segment& segment : *proto.mutable_segments()) {
    for (uint32_t& node : *segment.mutable_placement()->mutable_nodes()) {
      if (node == HP_NODE_LOCAL) node = LocalNode().value();
    }
  }
  return proto;
}

MapOptions MapOptionsOf(uint32_t flags) {
  return {.map = (flags & HP_REQUEST_NO_MAP) == 0,
          .dontfork = (flags & HP_REQUEST_DONTFORK) != 0};
}

absl::Duration FromMilliseconds(uint64_t ms) {
  constexpr absl::Duration kYear = absl::Hours(24 * 365);
  if (ms > static_cast<uint64_t>(absl::ToInt64Milliseconds(kYear))) {
    return kYear;
  }
  return absl::Milliseconds(static_cast<int64_t>(ms));
}

}  // namespace hugepool::client
