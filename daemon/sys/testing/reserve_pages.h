// Huge pages for tests that need real ones.
#ifndef HUGEPOOL_DAEMON_SYS_TESTING_RESERVE_PAGES_H_
#define HUGEPOOL_DAEMON_SYS_TESTING_RESERVE_PAGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/units.h"

namespace hugepool::sys::testing {

// While it lives, the node had `count` free pages of a size at its birth, and
// no other process that uses this class changes the kernel's counters. At its
// end the counter is as it was before.
//
//   auto pages = ReservedPages::Reserve(k2M, PageCount(64));
//   if (!pages.ok()) GTEST_SKIP() << pages.status();
//
// Reserve waits for other processes (a lock file for the whole host); within a
// process several may live at once, to end in reverse order. A test that was
// killed leaves a note in the lock file, and the next Reserve puts the counter
// back. Needs root. Move-only; not thread-safe.
class ReservedPages {
 public:
  // Raises the counter by what is missing in free pages. Where memory is
  // fragmented: drops caches, compacts, tries again. RESOURCE_EXHAUSTED where
  // there still are too few; all is as before then.
  static absl::StatusOr<ReservedPages> Reserve(PageSize size, PageCount count,
                                               NodeId node = NodeId(0));

  ReservedPages(ReservedPages&& o) noexcept;
  ReservedPages& operator=(ReservedPages&&) = delete;
  ~ReservedPages();

  // Free pages of the size on the node now.
  PageCount Free() const;
  // True once exactly `count` are free; the kernel gives back pages a moment
  // after the last user is gone. False after 10 s.
  bool WaitForFree(PageCount count) const;

 private:
  ReservedPages(PageSize size, NodeId node, PageCount before)
      : size_(size), node_(node), before_(before) {}

  PageSize size_;
  NodeId node_;
  PageCount before_;  // the counter to put back
  bool owns_ = true;
};

}  // namespace hugepool::sys::testing

#endif  // HUGEPOOL_DAEMON_SYS_TESTING_RESERVE_PAGES_H_
