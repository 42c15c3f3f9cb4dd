#include "daemon/pool/shape_plan.h"

#include <algorithm>

namespace hugepool {

std::vector<PageCount> DefaultShapes(PageSize page_size) {
  std::vector<PageCount> shapes;
  for (Bytes size : {GiB(1), MiB(32)}) {
    const PageCount pages = page_size.Floor(size);
    if (pages > PageCount(1)) shapes.push_back(pages);
  }
  shapes.push_back(PageCount(1));
  return shapes;
}

void ShapeLearner::Note(PageCount pages) {
  if (++since_halving_ >= kHalfLife) {
    since_halving_ = 0;
    for (auto it = weight_.begin(); it != weight_.end();) {
      it->second /= 2;
      it = it->second < 0.5 ? weight_.erase(it) : std::next(it);
    }
  }
  auto it = weight_.find(pages);
  if (it == weight_.end() && weight_.size() >= kMaxShapes) {
    weight_.erase(std::min_element(
        weight_.begin(), weight_.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  weight_[pages] += 1;
}

std::vector<PageCount> ShapeLearner::Learned() const {
  std::vector<std::pair<double, PageCount>> heavy;
  for (const auto& [pages, weight] : weight_) {
    if (weight >= 3) heavy.emplace_back(weight, pages);
  }
  std::sort(heavy.begin(), heavy.end(), std::greater<>());
  std::vector<PageCount> out;
  for (size_t i = 0; i < heavy.size() && i < 2; ++i) {
    out.push_back(heavy[i].second);
  }
  return out;
}

ShapeCounts PlanShapes(PageCount pages, const std::vector<PageCount>& shapes,
                       const std::vector<PageCount>& learned) {
  ShapeCounts plan;
  PageCount left = pages;
  for (PageCount s : learned) {
    if (s * 2 <= pages && s <= left) {
      ++plan[s];
      left -= s;
    }
  }
  std::vector<PageCount> sorted = shapes;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const PageCount s = sorted[i];
    uint64_t n = left / s;
    if (n > 0 && i + 1 < sorted.size()) {
      const PageCount for_this = left - PageCount(left.value() / 8);
      n = std::max<uint64_t>(1, for_this / s);
    }
    if (n == 0) continue;
    plan[s] += static_cast<uint32_t>(n);
    left -= s * n;
  }
  return plan;
}

}  // namespace hugepool
