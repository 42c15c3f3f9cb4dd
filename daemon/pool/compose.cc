#include "daemon/pool/compose.h"

#include <algorithm>

namespace hugepool {
namespace {

// Largest first from `it` on; stops at `max_extents`.
std::vector<PageCount> Greedy(PageCount pages, uint32_t max_extents,
                              ShapeCounts::const_iterator it,
                              ShapeCounts::const_iterator end) {
  std::vector<PageCount> out;
  PageCount left = pages;
  for (; it != end && left.value() > 0; ++it) {
    const auto& [shape, count] = *it;
    uint64_t n = std::min<uint64_t>(count, left / shape);
    if (max_extents != 0) {
      n = std::min<uint64_t>(n, max_extents - out.size());
    }
    out.insert(out.end(), n, shape);
    left -= shape * n;
  }
  return out;
}

PageCount Sum(const std::vector<PageCount>& pieces) {
  PageCount sum;
  for (PageCount p : pieces) sum += p;
  return sum;
}

}  // namespace

PageCount TotalPages(const ShapeCounts& counts) {
  PageCount sum;
  for (const auto& [shape, count] : counts) sum += shape * count;
  return sum;
}

std::optional<std::vector<PageCount>> Compose(PageCount pages,
                                              uint32_t max_extents,
                                              const ShapeCounts& stock) {
  for (auto it = stock.begin(); it != stock.end(); ++it) {
    if (it->first > pages || it->second == 0) continue;
    auto pieces = Greedy(pages, max_extents, it, stock.end());
    if (Sum(pieces) == pages) return pieces;
  }
  return std::nullopt;
}

std::vector<PageCount> ComposeUpTo(PageCount pages, uint32_t max_extents,
                                   const ShapeCounts& stock) {
  return Greedy(pages, max_extents, stock.begin(), stock.end());
}

std::vector<PageCount> IdealPieces(PageCount pages, uint32_t max_extents,
                                   const std::vector<PageCount>& shapes) {
  ShapeCounts endless;
  for (PageCount s : shapes) endless[s] = UINT32_MAX;
  auto pieces = ComposeUpTo(pages, max_extents, endless);
  const PageCount rest = pages - Sum(pieces);
  if (rest.value() == 0) return pieces;
  if (max_extents != 0 && pieces.size() == max_extents) {
    pieces.back() += rest;
    std::sort(pieces.begin(), pieces.end(), std::greater<>());
  } else {
    pieces.push_back(rest);  // smaller than every shape
  }
  return pieces;
}

bool TakeOne(ShapeCounts& counts, PageCount shape) {
  auto it = counts.find(shape);
  if (it == counts.end() || it->second == 0) return false;
  if (--it->second == 0) counts.erase(it);
  return true;
}

}  // namespace hugepool
