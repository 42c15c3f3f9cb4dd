// Changes of the machine that are undone, whatever becomes of the test.
#ifndef HUGEPOOL_TESTS_HARNESS_GUARDS_H_
#define HUGEPOOL_TESTS_HARNESS_GUARDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/units.h"
#include "daemon/sys/testing/reserve_pages.h"
#include "tests/harness/child_process.h"

namespace hugepool::testing {

// A file under /proc/sys with another value while this lives. A child process
// puts the old one back when this ends or the test dies, even by SIGKILL. The
// setting is the whole machine's: hold a KernelPages at the same time, which no
// two tests do.
class SysctlGuard {
 public:
  static absl::StatusOr<std::unique_ptr<SysctlGuard>> Set(
      const std::string& path, const std::string& value);
  ~SysctlGuard();

 private:
  SysctlGuard() = default;
  std::unique_ptr<ChildProcess> restorer_;
};

// Real huge pages of both sizes for one test, and nobody else's tests
// meanwhile.
class KernelPages {
 public:
  // So many free pages on node 0.
  static absl::StatusOr<std::unique_ptr<KernelPages>> Reserve(PageCount of_2m,
                                                              PageCount of_1g);
  ~KernelPages();

  // Pages of the size that are free now; 0 where none were reserved.
  PageCount Free(PageSize size) const;
  bool WaitForFree(PageSize size, PageCount count) const;

 private:
  struct One {
    PageSize size;
    sys::testing::ReservedPages pages;
  };
  KernelPages() = default;
  const One* Find(PageSize size) const;

  std::vector<std::unique_ptr<One>> all_;  // ended in reverse order
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_GUARDS_H_
