#include "daemon/extent/released_pages.h"

#include <algorithm>
#include <bit>

#include "daemon/base/check.h"

namespace hugepool {
namespace {

constexpr uint64_t kBits = 64;
constexpr uint64_t kWordsPerLine = 8;

uint64_t Ceil(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit; }

// `count` bits (1 to 64) from bit `first` on.
uint64_t Mask(uint64_t first, uint64_t count) {
  return (~uint64_t{0} >> (kBits - count)) << first;
}

template <typename Lines>
auto& Word(Lines& lines, uint64_t i) {
  return lines[i / kWordsPerLine].words[i % kWordsPerLine];
}

// Appends pages `first` to `first + count` to the last run where they touch.
void Append(uint64_t first, uint64_t count,
            std::vector<ReleasedPages::Run>* runs) {
  if (!runs->empty()) {
    ReleasedPages::Run& last = runs->back();
    if (last.first.value() + last.count.value() == first) {
      last.count += PageCount(count);
      return;
    }
  }
  runs->push_back({PageCount(first), PageCount(count)});
}

}  // namespace

ReleasedPages::ReleasedPages(PageCount pages)
    : pages_(pages),
      words_(Ceil(pages.value(), kBits)),
      released_(std::make_unique<Line[]>(Ceil(words_, kWordsPerLine))),
      taken_(std::make_unique<Line[]>(Ceil(words_, kWordsPerLine))) {}

bool ReleasedPages::Contains(PageCount first, PageCount count) const {
  return count > PageCount(0) && first < pages_ && count <= pages_ - first;
}

template <typename F>
void ReleasedPages::ForEachWord(PageCount first, PageCount count, F&& f) const {
  HP_CHECK(Contains(first, count), "pages of the extent");
  uint64_t at = first.value();
  const uint64_t end = at + count.value();
  while (at < end) {
    const uint64_t n = std::min(end - at, kBits - at % kBits);
    f(at / kBits, Mask(at % kBits, n));
    at += n;
  }
}

bool ReleasedPages::Overlaps(PageCount first, PageCount count) const {
  bool some = false;
  ForEachWord(first, count, [&](uint64_t i, uint64_t mask) {
    // relaxed: a look, which orders nothing.
    some |= (Word(released_, i).load(std::memory_order_relaxed) & mask) != 0;
  });
  return some;
}

ReleasedPages::Noted ReleasedPages::Release(PageCount first, PageCount count) {
  uint64_t again = 0;
  ForEachWord(first, count, [&](uint64_t i, uint64_t mask) {
    // seq_cst: comes before the look at DeferredExtent's `queued` in the one
    // order of all; partner of the loads in Pending and TakePending. It also
    // releases what the holder's call did before.
    const uint64_t before =
        Word(released_, i).fetch_or(mask, std::memory_order_seq_cst);
    // Hardly ever, and counting bits is dear.
    if ((before & mask) != 0) {
      again += static_cast<uint64_t>(std::popcount(before & mask));
    }
  });
  return {count - PageCount(again), PageCount(again)};
}

bool ReleasedPages::Pending() const {
  for (uint64_t i = 0; i < words_; ++i) {
    // relaxed: only the caller, or who had the work item before it, wrote
    // these.
    const uint64_t taken = Word(taken_, i).load(std::memory_order_relaxed);
    // seq_cst: comes after the clearing of `queued`; partner of Release.
    if (Word(released_, i).load(std::memory_order_seq_cst) & ~taken) {
      return true;
    }
  }
  return false;
}

std::vector<ReleasedPages::Run> ReleasedPages::TakePending(PageCount most) {
  std::vector<Run> runs;
  uint64_t left = most.value();
  for (uint64_t i = 0; i < words_ && left > 0; ++i) {
    // relaxed: as in Pending; nobody else writes it meanwhile.
    uint64_t taken = Word(taken_, i).load(std::memory_order_relaxed);
    // seq_cst: as in Pending.
    uint64_t bits = Word(released_, i).load(std::memory_order_seq_cst) & ~taken;
    while (bits != 0 && left > 0) {
      const auto first = static_cast<uint64_t>(std::countr_zero(bits));
      const auto ones = static_cast<uint64_t>(std::countr_one(bits >> first));
      const uint64_t count = std::min(ones, left);
      Append(i * kBits + first, count, &runs);
      bits &= ~Mask(first, count);
      taken |= Mask(first, count);
      left -= count;
    }
    // relaxed: the next one with the work item gets it by the pool's mutex.
    Word(taken_, i).store(taken, std::memory_order_relaxed);
  }
  return runs;
}

PageCount ReleasedPages::Count(const Line* lines) const {
  uint64_t n = 0;
  for (uint64_t i = 0; i < words_; ++i) {
    // relaxed: a figure.
    n += static_cast<uint64_t>(
        std::popcount(Word(lines, i).load(std::memory_order_relaxed)));
  }
  return PageCount(n);
}

PageCount ReleasedPages::released() const { return Count(released_.get()); }
PageCount ReleasedPages::taken() const { return Count(taken_.get()); }

}  // namespace hugepool
