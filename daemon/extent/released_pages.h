// Which pages of a granted extent its holder has given back, while it keeps the
// others.
#ifndef HUGEPOOL_DAEMON_EXTENT_RELEASED_PAGES_H_
#define HUGEPOOL_DAEMON_EXTENT_RELEASED_PAGES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/units.h"

namespace hugepool {

// Two bits a page: released by the holder, and taken by who splits the extent.
// Any number of threads may release at once, without a lock; pages are taken
// only by the one who has the extent's work item.
//
// Made at the first release of an extent, not before: most are never released
// in parts.
class ReleasedPages {
 public:
  // Page numbers are from the extent's beginning.
  struct Run {
    PageCount first, count;
    friend bool operator==(const Run&, const Run&) = default;
  };
  // What became of the pages of one release.
  struct Noted {
    PageCount fresh;
    // Released before, by another call or by this one's own overlap. More than
    // none: the holder made a mistake.
    PageCount again;
    friend bool operator==(const Noted&, const Noted&) = default;
  };

  explicit ReleasedPages(PageCount pages);
  ReleasedPages(const ReleasedPages&) = delete;
  ReleasedPages& operator=(const ReleasedPages&) = delete;

  PageCount pages() const { return pages_; }
  // Whether these are pages of the extent, and at least one. To be asked of
  // what comes from outside: the others insist on it.
  bool Contains(PageCount first, PageCount count) const;
  // Whether some of these pages are released. A look: others may be at it.
  bool Overlaps(PageCount first, PageCount count) const;
  // Each page is fresh for exactly one caller.
  Noted Release(PageCount first, PageCount count);

  // Whether there are pages that were released and not taken. For the one with
  // the work item it is exact; for others a look.
  bool Pending() const;
  // At most `most` of them, from the beginning, taken from now on. Only for the
  // one with the work item.
  std::vector<Run> TakePending(PageCount most);

  // How many; for people and for deciding whether splitting is worth it.
  PageCount released() const;
  PageCount taken() const;

 private:
  // As many words as a cache line holds.
  struct alignas(64) Line {
    std::atomic<uint64_t> words[8] = {};
  };
  // Calls `f(word, mask)` for each word with some of the pages.
  template <typename F>
  void ForEachWord(PageCount first, PageCount count, F&& f) const;
  PageCount Count(const Line* lines) const;

  const PageCount pages_;
  const uint64_t words_;
  // Bits of pages that were released, and of those that were taken.
  const std::unique_ptr<Line[]> released_;
  const std::unique_ptr<Line[]> taken_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_EXTENT_RELEASED_PAGES_H_
