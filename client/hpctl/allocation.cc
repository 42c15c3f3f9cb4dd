#include "client/hpctl/allocation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/hpctl/parse.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {
namespace {

void SetDuration(absl::Duration d, google::protobuf::Duration* out) {
  const int64_t seconds = absl::ToInt64Seconds(d);
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(d - absl::Seconds(seconds))));
}

// The placement of all segments that do not say themselves.
absl::StatusOr<v1::Placement> BuildPlacement(const AllocationFlags& flags) {
  v1::Placement placement;
  placement.set_mode(v1::PLACEMENT_MODE_ANY);
  const struct {
    const char* option;
    const std::string& text;
    v1::PlacementMode mode;
  } kinds[] = {
      {"--bind", flags.bind, v1::PLACEMENT_MODE_BIND},
      {"--prefer", flags.prefer, v1::PLACEMENT_MODE_PREFER},
      {"--interleave", flags.interleave, v1::PLACEMENT_MODE_INTERLEAVE}};
  for (const auto& kind : kinds) {
    if (kind.text.empty()) continue;
    placement.set_mode(kind.mode);
    if (kind.mode == v1::PLACEMENT_MODE_INTERLEAVE && kind.text == "all") {
      continue;
    }
    const auto nodes = ParseNodes(kind.text);
    if (!nodes.ok()) return Annotate(nodes.status(), kind.option);
    for (const NodeId node : *nodes) placement.add_nodes(node.value());
  }
  return placement;
}

absl::Status AddSegments(const AllocationFlags& flags,
                         v1::AcquireRequest* request) {
  HP_ASSIGN_OR_RETURN(const v1::Placement placement, BuildPlacement(flags));
  std::vector<PageSize> page_sizes;
  if (!flags.page_sizes.empty()) {
    auto parsed = ParsePageSizes(flags.page_sizes);
    if (!parsed.ok()) return Annotate(parsed.status(), "--page-size");
    page_sizes = *std::move(parsed);
  }
  Bytes hot;
  if (!flags.hot.empty()) {
    const auto parsed = ParseBytes(flags.hot);
    if (!parsed.ok()) return Annotate(parsed.status(), "--hot");
    hot = *parsed;
  }
  v1::Segment::CopySource copy;
  if (!flags.copy_from.empty()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(flags.copy_from, absl::MaxSplits('@', 1));
    copy.set_lease_id(parts.first);
    if (!parts.second.empty()) {
      const auto offset = ParseBytes(parts.second);
      if (!offset.ok()) return Annotate(offset.status(), "--copy-from");
      copy.set_offset(offset->value());
    }
    if (flags.sizes.size() > 1) {
      return absl::InvalidArgumentError(
          "--copy-from goes with one --size: it fills one segment");
    }
  }
  for (const std::string& text : flags.sizes) {
    const auto size = ParseSizeAtNodes(text);
    if (!size.ok()) return Annotate(size.status(), "--size");
    v1::Segment* const segment = request->add_segments();
    segment->set_size_bytes(size->size.value());
    segment->set_hot_offset(hot.value());
    if (flags.single_fd) segment->set_max_extents(1);
    if (!copy.lease_id().empty()) *segment->mutable_copy_from() = copy;
    for (const PageSize p : page_sizes) {
      segment->add_page_sizes(p.bytes().value());
    }
    *segment->mutable_placement() = placement;
    if (!size->nodes.empty()) {
      segment->mutable_placement()->Clear();
      segment->mutable_placement()->set_mode(v1::PLACEMENT_MODE_BIND);
      for (const NodeId node : size->nodes) {
        segment->mutable_placement()->add_nodes(node.value());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SetLife(const AllocationFlags& flags,
                     v1::Lifetime default_lifetime,
                     v1::AcquireRequest* request) {
  v1::Lifetime lifetime =
      flags.name.empty() ? default_lifetime : v1::LIFETIME_NAMED;
  if (!flags.lifetime.empty()) {
    const auto parsed = ParseLifetime(flags.lifetime);
    if (!parsed.ok()) return Annotate(parsed.status(), "--lifetime");
    lifetime = *parsed;
  }
  if ((lifetime == v1::LIFETIME_NAMED) != !flags.name.empty()) {
    return absl::InvalidArgumentError(
        "--name and --lifetime named belong together");
  }
  request->set_lifetime(lifetime);
  request->set_name(flags.name);
  if (flags.time_to_live.empty()) return absl::OkStatus();
  if (lifetime != v1::LIFETIME_NAMED) {
    return absl::InvalidArgumentError("--ttl is for named leases");
  }
  const auto ttl = ParseWait(flags.time_to_live);
  if (!ttl.ok()) return Annotate(ttl.status(), "--ttl");
  SetDuration(*ttl, request->mutable_time_to_live());
  return absl::OkStatus();
}

}  // namespace

void AddAllocationFlags(CLI::App* command, AllocationFlags* flags) {
  command
      ->add_option("--size", flags->sizes,
                   "SIZE or SIZE@NODES, e.g. 4G@0; once for each segment")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command->add_option("--page-size", flags->page_sizes,
                      "page sizes in order of preference, e.g. 1G,2M");
  auto* placement = command->add_option_group("placement");
  placement->add_option("--bind", flags->bind, "only on these NUMA nodes");
  placement->add_option("--prefer", flags->prefer,
                        "on these nodes if possible");
  placement->add_option("--interleave", flags->interleave,
                        "spread over these nodes, or all");
  placement->require_option(0, 1);
  command->add_flag("--single-fd", flags->single_fd,
                    "one descriptor for each segment");
  command->add_option("--wait", flags->wait,
                      "how long to wait for memory, e.g. 5s; else not at all");
  command->add_option("--hot", flags->hot, "offset that is touched first");
  command->add_option("--copy-from", flags->copy_from,
                      "begin as a copy of a lease, LEASE[@OFFSET]");
  command->add_option("--lifetime", flags->lifetime,
                      "session, memory or named");
  command->add_option("--name", flags->name, "name of a named lease");
  command->add_option("--ttl", flags->time_to_live,
                      "time to live of a named lease");
  command->add_flag("--seal-shrink", flags->seal_shrink,
                    "seal against shrinking, for vhost-user");
  command->add_flag("--reopenable", flags->reopenable,
                    "may be opened again by path, as QEMU does");
  command->add_flag("--private", flags->is_private,
                    "no descriptor leaves the domain, no pin outlives it");
  command->add_option("--label", flags->labels, "KEY=VALUE; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

absl::StatusOr<v1::AcquireRequest> BuildAcquireRequest(
    const AllocationFlags& flags, v1::Lifetime default_lifetime) {
  v1::AcquireRequest request;
  HP_RETURN_IF_ERROR(AddSegments(flags, &request));
  HP_RETURN_IF_ERROR(SetLife(flags, default_lifetime, &request));
  if (!flags.wait.empty()) {
    const auto wait = ParseWait(flags.wait);
    if (!wait.ok()) return Annotate(wait.status(), "--wait");
    SetDuration(*wait, request.mutable_max_wait());
  }
  request.set_sealed(flags.seal_shrink);
  request.set_reopenable(flags.reopenable);
  request.set_private_(flags.is_private);
  for (const std::string& text : flags.labels) {
    auto label = ParseLabel(text);
    if (!label.ok()) return Annotate(label.status(), "--label");
    (*request.mutable_labels())[label->first] = label->second;
  }
  return request;
}

}  // namespace hugepool::hpctl
