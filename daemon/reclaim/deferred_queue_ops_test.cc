// Random operations on the queue, against a plain list, checked after each. A
// failing sequence is printed as code for a regression test.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/reclaim/deferred_queue.h"

namespace hugepool {
namespace {

// The queue, its extents, a scanner, and what they should look like. Operations
// take any numbers and do nothing where they make no sense.
class QueueWorld {
 public:
  static constexpr int kExtents = 6;
  static constexpr uint64_t kPages = 70;

  QueueWorld() {
    for (int e = 0; e < kExtents; ++e) Renew(e);
  }
  // The extent's holder releases pages.
  void Release(int e, int first, int count) {
    Known& known = known_[e];
    const int end = std::min<int>(first + count, kPages);
    int fresh = 0;
    for (int p = first; p < end; ++p) {
      if (known.pages[p] != 'k') continue;
      known.pages[p] = 'r';
      ++fresh;
    }
    const auto noted =
        extents_[e]->Release(PageCount(first), PageCount(end - first), Now());
    if (noted.fresh != PageCount(fresh)) Fail("fresh pages", e);
    if (fresh > 0 && !Queued(known.id)) plain_.push_back({known.id, Now()});
  }
  void Take(int most) {
    for (auto& item : queue_.TakeBatch(most)) {
      const uint64_t id = item.extent->id().value();
      if (plain_.empty() || plain_.front() != Plain(id, item.since)) {
        return Fail("the head of the queue", static_cast<int>(id));
      }
      plain_.pop_front();
      batch_.push_back(std::move(item));
    }
  }
  // Of an extent of the batch: all that is pending; it is finished.
  void Finish(int i) {
    if (batch_.empty()) return;
    i %= static_cast<int>(batch_.size());
    const auto item = std::move(batch_[i]);
    batch_.erase(batch_.begin() + i);
    Split(*item.extent, kPages);
  }
  void PutBack(int i, int split) {
    if (batch_.empty()) return;
    i %= static_cast<int>(batch_.size());
    Split(*batch_[i].extent, split);
    DeferredQueue::Batch survivors;
    survivors.push_back(std::move(batch_[i]));
    batch_.erase(batch_.begin() + i);
    const uint64_t id = survivors[0].extent->id().value();
    const absl::Time since = survivors[0].since;
    queue_.PutBack(std::move(survivors));
    if (!Lives(id)) return;
    for (Plain& plain : plain_) {
      if (plain.first == id) {
        plain.second = std::min(plain.second, since);
        return;
      }
    }
    plain_.push_back({id, since});
  }
  // Its lease comes back; the memory is lent again.
  void End(int e) {
    const uint64_t id = known_[e].id;
    if (queue_.Remove(*extents_[e]) != Queued(id)) Fail("Remove's answer", e);
    std::erase_if(plain_, [id](const Plain& p) { return p.first == id; });
    Renew(e);
  }
  void Advance(int seconds) { now_ += seconds; }

  // Empty where all is well.
  std::string Check() {
    if (const auto status = queue_.CheckInvariants(); !status.ok()) {
      return status.ToString();
    }
    const DeferredQueue::Stats stats = queue_.stats();
    absl::Time oldest = absl::InfiniteFuture();
    for (const Plain& p : plain_) oldest = std::min(oldest, p.second);
    if (stats.length != plain_.size()) Fail("the length", -1);
    if (stats.oldest != oldest) Fail("the oldest", -1);
    for (int e = 0; e < kExtents; ++e) {
      const auto& pages = known_[e].pages;
      const bool pending = std::count(pages.begin(), pages.end(), 'r') > 0;
      if (extents_[e]->released().Pending() != pending) Fail("pending", e);
      const uint64_t batches = Batched(known_[e].id);
      if (pending && !Queued(known_[e].id) && batches == 0) {
        Fail("released pages that nobody will see", e);
      }
      if (extents_[e]->references() != 1 + batches + Queued(known_[e].id)) {
        Fail("references", e);
      }
    }
    return wrong_;
  }

 private:
  using Plain = std::pair<uint64_t, absl::Time>;
  struct Known {
    uint64_t id = 0;
    std::vector<char> pages;  // kept, released, taken
  };
  absl::Time Now() const { return absl::FromUnixSeconds(now_); }
  void Fail(const std::string& what, int e) {
    if (wrong_.empty()) wrong_ = absl::StrCat(what, " (", e, ")");
  }
  void Renew(int e) {
    known_[e] = {++last_id_, std::vector<char>(kPages, 'k')};
    extents_[e] = DeferredExtent::Make(&queue_, nullptr, ExtentId(last_id_),
                                       LeaseId(1),
                                       PageCount(kPages));
  }
  bool Lives(uint64_t id) const {
    return std::any_of(std::begin(known_), std::end(known_),
                       [id](const Known& k) { return k.id == id; });
  }
  bool Queued(uint64_t id) const {
    return std::any_of(plain_.begin(), plain_.end(),
                       [id](const Plain& p) { return p.first == id; });
  }
  uint64_t Batched(uint64_t id) const {
    return static_cast<uint64_t>(std::count_if(
        batch_.begin(), batch_.end(),
        [id](const auto& item) { return item.extent->id().value() == id; }));
  }
  void Split(DeferredExtent& extent, uint64_t most) {
    for (const auto& run : extent.released().TakePending(PageCount(most))) {
      for (Known& known : known_) {
        if (known.id != extent.id().value()) continue;
        for (uint64_t p = 0; p < run.count.value(); ++p) {
          char& page = known.pages.at(run.first.value() + p);
          if (std::exchange(page, 't') != 'r') {
            Fail("a page taken that was not pending",
                 static_cast<int>(known.id));
          }
        }
      }
    }
  }

  DeferredQueue queue_;
  DeferredRef extents_[kExtents];
  Known known_[kExtents];
  DeferredQueue::Batch batch_;
  std::deque<Plain> plain_;
  uint64_t last_id_ = 0;
  int64_t now_ = 1;
  std::string wrong_;
};

// Draws operations and remembers them as code.
class Driver {
 public:
  explicit Driver(uint32_t seed) : random_(seed) {}
  void One() {
    // Drawn one by one: a compiler may evaluate arguments in any order.
    const int dice = Draw(100);
    const int e = Draw(QueueWorld::kExtents);
    const int first = Draw(QueueWorld::kPages);
    const int few = Draw(5);
    if (dice < 50) {
      return Do("Release", &QueueWorld::Release, e, first, 1 + few);
    }
    if (dice < 65) return Do("Take", &QueueWorld::Take, few);
    if (dice < 75) return Do("Finish", &QueueWorld::Finish, e);
    if (dice < 88) return Do("PutBack", &QueueWorld::PutBack, e, few);
    if (dice < 93) return Do("End", &QueueWorld::End, e);
    Do("Advance", &QueueWorld::Advance, 1 + few);
  }
  std::string Check() { return world_.Check(); }
  const std::string& code() const { return code_; }

 private:
  int Draw(int n) {
    return static_cast<int>(random_() % static_cast<uint32_t>(n));
  }
  template <typename... Args>
  void Do(const char* name, void (QueueWorld::*op)(Args...), Args... args) {
    absl::StrAppend(&code_, "w.", name, "(");
    [[maybe_unused]] const char* comma = "";
    ((absl::StrAppend(&code_, comma, args), comma = ", "), ...);
    absl::StrAppend(&code_, ");\n");
    (world_.*op)(args...);
  }
  std::mt19937 random_;
  QueueWorld world_;
  std::string code_;
};

TEST(DeferredQueueOps, IsTheSameAsAPlainList) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    Driver driver(seed);
    for (int i = 0; i < 1000; ++i) {
      driver.One();
      const std::string wrong = driver.Check();
      ASSERT_EQ(wrong, "") << "seed " << seed << ":\nQueueWorld w;\n"
                           << driver.code();
    }
  }
}

}  // namespace
}  // namespace hugepool
