#include "daemon/pool/placement.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/refusal.h"

namespace hugepool {
namespace {

std::string ListNodes(const std::vector<NodeId>& nodes) {
  return absl::StrJoin(nodes, ", ", [](std::string* out, NodeId n) {
    absl::StrAppend(out, n.value());
  });
}

std::string ListSizes(const std::vector<PoolFacts>& pools) {
  std::set<PageSize, std::greater<>> sizes;
  for (const PoolFacts& p : pools) sizes.insert(p.page_size);
  return absl::StrJoin(sizes, ", ", [](std::string* out, PageSize s) {
    absl::StrAppend(out, ToString(s));
  });
}

bool Contains(const std::vector<NodeId>& nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Page sizes to try: the asked ones, or all, those first that waste nothing.
absl::StatusOr<std::vector<PageSize>> SizesToTry(
    const SegmentRequest& segment, const std::vector<PoolFacts>& pools) {
  std::set<PageSize, std::greater<>> offered;
  for (const PoolFacts& p : pools) offered.insert(p.page_size);
  if (segment.page_sizes.empty()) {
    std::vector<PageSize> sizes;
    for (PageSize s : offered) {
      if (segment.size.value() % s.bytes().value() == 0) sizes.push_back(s);
    }
    // A size that is no multiple of any: the smallest page wastes least.
    if (sizes.empty() && !offered.empty()) sizes.push_back(*offered.rbegin());
    return sizes;
  }
  for (PageSize s : segment.page_sizes) {
    if (!offered.contains(s)) {
      return Refuse(
          RefusalReason::kUnknownPageSize,
          absl::StrCat("there is no pool of pages of ", ToString(s)),
          absl::StrCat("page sizes with a pool: ", ListSizes(pools)));
    }
  }
  return segment.page_sizes;
}

absl::Status CheckNodes(const SegmentRequest& segment,
                        const std::vector<NodeId>& nodes_with_memory) {
  if (segment.nodes.empty() && (segment.mode == PlacementMode::kBind ||
                                segment.mode == PlacementMode::kPrefer)) {
    return Refuse(RefusalReason::kBadRequest,
                  "placement BIND or PREFER without nodes",
                  absl::StrCat("name one of the nodes with memory: ",
                               ListNodes(nodes_with_memory)));
  }
  for (NodeId n : segment.nodes) {
    if (!Contains(nodes_with_memory, n)) {
      return Refuse(RefusalReason::kNoSuchNode,
                    absl::StrCat("node ", n.value(),
                                 " does not exist or has no memory"),
                    absl::StrCat("nodes with memory: ",
                                 ListNodes(nodes_with_memory)));
    }
  }
  return absl::OkStatus();
}

SegmentOption OptionFor(const SegmentRequest& segment, PageSize size,
                        PageCount pages, const std::vector<PoolFacts>& pools) {
  SegmentOption option;
  option.page_size = size;
  option.pages = pages;
  option.mode = segment.mode;
  option.max_extents = segment.max_extents;
  const bool only_listed =
      segment.mode == PlacementMode::kBind ||
      (segment.mode == PlacementMode::kInterleave && !segment.nodes.empty());
  for (size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].page_size != size) continue;
    const bool listed = Contains(segment.nodes, pools[i].node);
    if (only_listed && !listed) continue;
    option.pools.push_back(i);
    if (listed) option.preferred.push_back(i);
  }
  return option;
}

std::string NeverFitsHint(PageSize size, const std::vector<PoolFacts>& pools) {
  std::vector<std::string> have;
  for (const PoolFacts& p : pools) {
    if (p.page_size != size) continue;
    have.push_back(absl::StrCat("node ", p.node.value(), ": ",
                                ToString(size.Of(p.capacity))));
  }
  return absl::StrCat("pools of ", ToString(size), " pages hold at most: ",
                      have.empty() ? "none" : absl::StrJoin(have, ", "),
                      "; ask for less, allow other nodes, or raise the target");
}

// Candidates in the order in which to try them: preferred first, then by what
// they have, never by number (N10).
std::vector<size_t> InOrder(const SegmentOption& option,
                            const std::vector<PageCount>& have) {
  std::vector<size_t> order = option.pools;
  const auto preferred = [&](size_t i) {
    return option.mode == PlacementMode::kPrefer &&
           std::find(option.preferred.begin(), option.preferred.end(), i) !=
               option.preferred.end();
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (preferred(a) != preferred(b)) return preferred(a);
    return have[a] > have[b];
  });
  return order;
}

uint32_t Limit(uint32_t asked, uint32_t limit) {
  return asked == 0 ? limit : std::min(asked, limit);
}

// How many candidates get a share of an interleaved segment, and so at least
// one extent.
uint64_t InterleavedParts(const SegmentOption& option) {
  return std::min<uint64_t>(option.pools.size(), option.pages.value());
}

// An even share of the pages for each candidate, dealt out in turn.
std::optional<std::vector<PlannedExtent>> Interleave(
    const SegmentOption& option, uint32_t limit,
    std::vector<ShapeCounts>& stock) {
  const size_t n = option.pools.size();
  const uint64_t parts = InterleavedParts(option);
  if (parts == 0 || limit < parts) return std::nullopt;
  std::vector<std::vector<PageCount>> shares;
  for (size_t i = 0; i < n; ++i) {
    const PageCount share(option.pages.value() / n +
                          (i < option.pages.value() % n ? 1 : 0));
    if (share.value() == 0) {
      shares.emplace_back();
      continue;
    }
    auto pieces = Compose(share, static_cast<uint32_t>(limit / parts),
                          stock[option.pools[i]]);
    if (!pieces) return std::nullopt;
    shares.push_back(*std::move(pieces));
  }
  std::vector<PlannedExtent> plan;
  for (size_t row = 0; true; ++row) {
    bool any = false;
    for (size_t i = 0; i < n; ++i) {
      if (row >= shares[i].size()) continue;
      any = true;
      plan.push_back({option.pools[i], shares[i][row]});
    }
    if (!any) break;
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::vector<SegmentOption>> ResolveSegment(
    const SegmentRequest& segment, const std::vector<PoolFacts>& pools,
    const std::vector<NodeId>& nodes_with_memory) {
  if (segment.size.value() == 0) {
    return Refuse(RefusalReason::kBadRequest, "a segment of 0 bytes",
                  "ask for at least one byte; sizes are rounded up to pages");
  }
  absl::Status nodes = CheckNodes(segment, nodes_with_memory);
  if (!nodes.ok()) return nodes;
  auto sizes = SizesToTry(segment, pools);
  if (!sizes.ok()) return sizes.status();
  std::vector<SegmentOption> options;
  PageSize last = pools.empty() ? k2M : sizes->back();
  for (PageSize size : *sizes) {
    const auto pages = size.Ceil(segment.size);
    if (!pages.has_value()) continue;
    SegmentOption option = OptionFor(segment, size, *pages, pools);
    std::vector<PageCount> capacity;
    for (const PoolFacts& p : pools) capacity.push_back(p.capacity);
    if (SpreadDemand(option, capacity)) options.push_back(std::move(option));
  }
  if (options.empty()) {
    Refusal refusal{RefusalReason::kNeverFits, segment.size, Bytes(0),
                    NeverFitsHint(last, pools)};
    for (const PoolFacts& p : pools) {
      if (p.page_size == last) refusal.available += last.Of(p.capacity);
    }
    return Refuse(refusal,
                  absl::StrCat(ToString(segment.size), " of ", ToString(last),
                               " pages",
                               segment.max_extents == 1 ? " in one extent" : "",
                               " can never be served"));
  }
  return options;
}

std::optional<std::vector<PlannedExtent>> PlaceSegment(
    const SegmentOption& option, uint32_t extent_limit,
    std::vector<ShapeCounts>& stock) {
  const uint32_t limit = Limit(option.max_extents, extent_limit);
  if (limit == 0) return std::nullopt;
  std::optional<std::vector<PlannedExtent>> plan;
  if (option.mode == PlacementMode::kInterleave && option.pools.size() > 1) {
    plan = Interleave(option, limit, stock);
  } else {
    std::vector<PageCount> have(stock.size());
    for (size_t i : option.pools) have[i] = TotalPages(stock[i]);
    const std::vector<size_t> order = InOrder(option, have);
    for (size_t i : order) {  // one node, if one has enough
      if (auto pieces = Compose(option.pages, limit, stock[i])) {
        plan.emplace();
        for (PageCount p : *pieces) plan->push_back({i, p});
        break;
      }
    }
    if (!plan) {
      PageCount left = option.pages;
      std::vector<PlannedExtent> spread;
      for (size_t i : order) {
        if (spread.size() == limit) break;
        for (PageCount p : ComposeUpTo(
                 left, static_cast<uint32_t>(limit - spread.size()),
                 stock[i])) {
          spread.push_back({i, p});
          left -= p;
        }
      }
      if (left.value() == 0) plan = std::move(spread);
    }
  }
  if (plan) {
    for (const PlannedExtent& e : *plan) TakeOne(stock[e.pool], e.pages);
  }
  return plan;
}

std::optional<std::vector<std::pair<size_t, PageCount>>> SpreadDemand(
    const SegmentOption& option, std::vector<PageCount>& capacity) {
  std::vector<std::pair<size_t, PageCount>> spread;
  const size_t n = option.pools.size();
  if (n == 0) return std::nullopt;
  if (option.mode == PlacementMode::kInterleave && n > 1) {
    if (option.max_extents != 0 &&
        option.max_extents < InterleavedParts(option)) {
      return std::nullopt;
    }
    for (size_t i = 0; i < n; ++i) {
      const PageCount share(option.pages.value() / n +
                            (i < option.pages.value() % n ? 1 : 0));
      if (share > capacity[option.pools[i]]) return std::nullopt;
      if (share.value() > 0) spread.emplace_back(option.pools[i], share);
    }
  } else {
    const std::vector<size_t> order = InOrder(option, capacity);
    PageCount left = option.pages;
    for (size_t i : order) {
      if (capacity[i] >= left) {
        spread.assign(1, {i, option.pages});
        left = PageCount(0);
        break;
      }
    }
    if (left.value() > 0) {
      if (option.max_extents == 1) return std::nullopt;
      for (size_t i : order) {
        const PageCount part = std::min(left, capacity[i]);
        if (part.value() > 0) spread.emplace_back(i, part);
        left -= part;
      }
      if (left.value() > 0) return std::nullopt;
    }
  }
  for (const auto& [i, pages] : spread) capacity[i] -= pages;
  return spread;
}

}  // namespace hugepool
