// Taking access to parts of a mapping away, on real huge pages.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "client/internal/mapping.h"
#include "client/testing/access.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/units.h"
#include "daemon/sys/testing/reserve_pages.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::hugepool::testing::IsReadable;
using sys::testing::ReservedPages;

constexpr uint64_t kPages = 512;  // what one page table has
constexpr uint64_t kPageBytes = MiB(2).value();

// One GiB of 2 MiB pages, populated by one mapping (the daemon's, say) and
// mapped by another, as leases are.
class MappingRealTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pages = ReservedPages::Reserve(k2M, PageCount(kPages));
    if (!pages.ok()) GTEST_SKIP() << pages.status();
    pages_.emplace(*std::move(pages));
    fd_.reset(memfd_create("mapping_real_test",
                           MFD_CLOEXEC | MFD_HUGETLB | (21 << 26)));
    ASSERT_TRUE(fd_.valid());
    ASSERT_EQ(ftruncate(fd_.get(), static_cast<off_t>(GiB(1).value())), 0);
    auto other = MapPieces(GiB(1), k2M, {{fd_.get(), Bytes(0), GiB(1)}}, false);
    ASSERT_TRUE(other.ok()) << other.status();
    other_ = *std::move(other);
    for (uint64_t page = 0; page < kPages; ++page) {
      *At(other_, page) = static_cast<char>(1 + page % 100);
    }
    auto mine = MapPieces(GiB(1), k2M, {{fd_.get(), Bytes(0), GiB(1)}}, false);
    ASSERT_TRUE(mine.ok()) << mine.status();
    mine_ = *std::move(mine);
  }

  static char* At(const MappedRange& range, uint64_t page) {
    return static_cast<char*>(range.address()) + page * kPageBytes;
  }
  // The pages of `mine_` but `first` to `last` have their content and take new
  // content, and those have none.
  void ExpectOnlyTheseOutOfReach(uint64_t first, uint64_t last) {
    for (uint64_t page = 0; page < kPages; ++page) {
      if (page >= first && page <= last) {
        EXPECT_FALSE(IsReadable(At(mine_, page))) << page;
        EXPECT_FALSE(IsReadable(At(mine_, page + 1) - 1)) << page;
        continue;
      }
      EXPECT_EQ(*At(mine_, page), static_cast<char>(1 + page % 100)) << page;
      *(At(mine_, page + 1) - 1) = 'm';
    }
  }

  std::optional<ReservedPages> pages_;  // goes last
  UniqueFd fd_;
  MappedRange other_;
  MappedRange mine_;
};

TEST_F(MappingRealTest, OtherPagesAndOtherMappingsKeepTheirs) {
  EXPECT_EQ(*At(mine_, 200), 1);  // a page table that can be shared is
  ASSERT_TRUE(mine_
                  .SetAccess(Bytes(3 * kPageBytes), Bytes(2 * kPageBytes),
                             Access::kNone)
                  .ok());
  ExpectOnlyTheseOutOfReach(3, 4);
  for (uint64_t page = 0; page < kPages; ++page) {
    EXPECT_EQ(*At(other_, page), static_cast<char>(1 + page % 100)) << page;
  }
  ASSERT_TRUE(mine_
                  .SetAccess(Bytes(3 * kPageBytes), Bytes(2 * kPageBytes),
                             Access::kReadWrite)
                  .ok());
  ExpectOnlyTheseOutOfReach(kPages, kPages);
}

// The kernel takes nothing for what the process cannot touch.
TEST_F(MappingRealTest, ThePagesComeFreeAndStayFree) {
  EXPECT_EQ(pages_->Free(), PageCount(0));
  ASSERT_TRUE(mine_
                  .SetAccess(Bytes(7 * kPageBytes), Bytes(3 * kPageBytes),
                             Access::kNone)
                  .ok());
  ASSERT_EQ(fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      7 * kPageBytes, 3 * kPageBytes),
            0);
  EXPECT_TRUE(pages_->WaitForFree(PageCount(3)));
  ExpectOnlyTheseOutOfReach(7, 9);
  EXPECT_EQ(pages_->Free(), PageCount(3));
  mine_.Reset();
  other_.Reset();
  fd_.reset();
  EXPECT_TRUE(pages_->WaitForFree(PageCount(kPages)));
}

// What hugepool.h says of the cost: the table is not shared any more, and each
// other page is faulted in once more.
TEST_F(MappingRealTest, TheOthersAreFaultedInAnew) {
  const auto faults = [] {
    rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const auto touch_all = [&](uint64_t from) {
    const auto before = faults();
    for (uint64_t page = from; page < kPages; ++page) {
      static_cast<void>(*const_cast<volatile char*>(At(mine_, page)));
    }
    return faults() - before;
  };
  if (touch_all(0) > 8) {
    GTEST_SKIP() << "this kernel did not share the page table";
  }
  ASSERT_TRUE(mine_.SetAccess(Bytes(0), Bytes(kPageBytes), Access::kNone).ok());
  const auto again = touch_all(1);
  EXPECT_GE(again, 511);
  EXPECT_LE(again, 520);
  EXPECT_LE(touch_all(1), 8);
}

// No part of a page can be given up.
TEST_F(MappingRealTest, PartsOfPagesAreRefusedByTheKernel) {
  EXPECT_EQ(mine_.SetAccess(KiB(4), MiB(2), Access::kNone).code(),
            absl::StatusCode::kInvalidArgument);
  ExpectOnlyTheseOutOfReach(kPages, kPages);
}

}  // namespace
}  // namespace hugepool::client
