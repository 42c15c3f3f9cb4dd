// N26: vm.max_map_count is in the way when parts of a lease are released.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/internal/connection.h"
#include "client/internal/release_ranges.h"
#include "client/testing/access.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/mappings_used_up.h"
#include "client/testing/sanitized.h"
#include "client/testing/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::IsWritable;
using ::hugepool::testing::MappingsUsedUp;
using ::hugepool::testing::TestDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  uint64_t pages_per_extent;
  std::vector<LeaseRange> ranges;
  const char* fails_at;
};

class ReleaseLimitTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (testing::kSanitized) GTEST_SKIP() << "a sanitizer needs mappings";
    if (!MappingsUsedUp::Possible()) {
      GTEST_SKIP() << "vm.max_map_count is " << MappingsUsedUp::Limit();
    }
  }
};

TEST_P(ReleaseLimitTest, N26NothingIsReleasedAndAllIsAccessible) {
  const Case& c = GetParam();
  TestDir dir;
  FakeDaemon daemon(
      {.dir = dir.path(), .pages_per_extent = c.pages_per_extent});
  daemon.Start();
  const auto connection = Connection::Connect({.dir = dir.path()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  v1::AcquireRequest request;
  request.add_segments()->set_size_bytes(MiB(8).value());
  auto held = (*connection)->Acquire(request, {});
  ASSERT_TRUE(held.ok()) << held.status();
  const auto pages = [&] {
    std::string text;
    for (uint64_t page = 0; page < 4; ++page) {
      text += IsWritable(static_cast<char*>(held->segments[0].address()) +
                         MiB(2 * page).value())
                  ? '1'
                  : '0';
    }
    return text;
  };
  daemon.Stop();  // it is not asked; its threads need mappings
  absl::Status status;
  std::string seen;
  {
    MappingsUsedUp all;
    // The kernel lets mmap have one more than it lets others cut.
    all.FreeOne();
    all.FreeOne();  // enough for one cut
    status = ReleaseRanges(connection->get(), &*held, c.ranges);
    seen = pages();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(c.fails_at), HasSubstr("vm.max_map_count")));
  EXPECT_EQ(seen, "1111");
  daemon.Start();
  const absl::Status again = ReleaseRanges(connection->get(), &*held, c.ranges);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_NE(pages(), "1111");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ReleaseLimitTest,
    ::testing::Values(
        // The first range cuts once, the second one twice.
        Case{"TheSecondRange",
             4,
             {{0, MiB(0), MiB(2)}, {0, MiB(4), MiB(2)}},
             "mprotect(2 MiB, offset 4194304)"},
        // One cut in each of two extents: the first one's part is done then.
        Case{"PartOfARange",
             2,
             {{0, MiB(2), MiB(4)}},
             "mprotect(4 MiB, offset 2097152)"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hugepool::client
