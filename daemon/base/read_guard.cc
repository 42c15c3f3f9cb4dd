#include "daemon/base/read_guard.h"

#include <iterator>

#include "daemon/base/check.h"

namespace hugepool {

ReadGuard::~ReadGuard() {
  {
    MutexLock lock(&mu_);
    seen_.reset();
    LookAtCells();
    HP_CHECK(seen_.all(), "a read guard ends after its readers");
  }
  // What is freed may retire more.
  while (Collect() > 0) {
  }
}

void ReadGuard::Retire(std::function<void()> free) {
  MutexLock lock(&mu_);
  next_.push_back(std::move(free));
}

int ReadGuard::Collect() {
  Retired free;
  {
    MutexLock lock(&mu_);
    while (Advance(&free)) {
    }
  }
  for (std::function<void()>& f : free) {
    f();
    f = nullptr;  // in the order in which they were retired
  }
  return static_cast<int>(free.size());
}

int ReadGuard::waiting() const {
  MutexLock lock(&mu_);
  return static_cast<int>(next_.size() + batch_.size());
}

bool ReadGuard::Advance(Retired* free) {
  if (batch_.empty()) {
    if (next_.empty()) return false;
    batch_.swap(next_);
    seen_.reset();
    swapped_ = false;
  }
  LookAtCells();
  if (seen_.all()) {
    std::move(batch_.begin(), batch_.end(), std::back_inserter(*free));
    batch_.clear();
    return true;
  }
  if (swapped_) return false;
  // relaxed: only written under mu_.
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kStripes; ++i) {
    if (!seen_[(1 - phase) * kStripes + i]) return false;
  }
  // relaxed: any phase is right for a reader.
  phase_.store(1 - phase, std::memory_order_relaxed);
  swapped_ = true;
  return true;
}

void ReadGuard::LookAtCells() {
  for (uint32_t i = 0; i < 2 * kStripes; ++i) {
    if (seen_[i]) continue;
    // seq_cst: (4) in the header, partner of the addition in Scope. It acquires
    // too: partner of the release in ~Scope. All changes of a cell are
    // read-modify-writes, so a zero comes after every reader that has left.
    const Cell& cell = cells_[i / kStripes][i % kStripes];
    if (cell.readers.load(std::memory_order_seq_cst) == 0) seen_.set(i);
  }
}

}  // namespace hugepool
