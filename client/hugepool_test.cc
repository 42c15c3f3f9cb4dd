// The C++ layer, and through it the C interface, against a fake daemon.
#include "client/hugepool.hpp"

#include <sched.h>
#include <sys/stat.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "daemon/base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::hugepool::Client;
using ::hugepool::Lease;
using ::hugepool::Request;
using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::Faults;
using ::hugepool::testing::TestDir;
using ::testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;

class HugepoolTest : public ::testing::Test {
 protected:
  HugepoolTest() : daemon_({.dir = dir_.path()}) { daemon_.Start(); }

  Client Connect() {
    auto client = Client::Connect(dir_.path());
    EXPECT_TRUE(client.ok()) << client.error().message();
    return client.take();
  }

  TestDir dir_;
  FakeDaemon daemon_;
};

TEST_F(HugepoolTest, TheLeaseEndsWithItsObject) {
  Client client = Connect();
  {
    auto lease = client.Acquire(Request().Segment(3 * kMiB).Segment(1));
    ASSERT_TRUE(lease) << lease.error().message();
    ASSERT_EQ(lease->segment_count(), 2u);
    EXPECT_EQ(lease->segment(0).size, 4 * kMiB);
    EXPECT_EQ(lease->segment(0).page_size, 2 * kMiB);
    EXPECT_EQ(lease->segment(1).size, 2 * kMiB);
    EXPECT_EQ(lease->segment(2).data, nullptr);
    std::memset(lease->segment(0).data, 1, lease->segment(0).size);
    EXPECT_EQ(lease->standing(), HP_STANDING_HELD);
    EXPECT_EQ(daemon_.lease_count(), 1u);
  }
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_F(HugepoolTest, ExtentsDescribeTheDescriptors) {
  Client client = Connect();
  auto lease = client.Acquire(Request().Segment(4 * kMiB));
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_EQ(lease->extent_count(), 2u);
  const hp_extent_info second = lease->extent(1);
  EXPECT_EQ(second.offset, 2 * kMiB);
  EXPECT_EQ(second.bytes, 2 * kMiB);
  EXPECT_EQ(second.page_size, 2 * kMiB);
  struct stat st;
  ASSERT_EQ(fstat(second.fd, &st), 0);
  EXPECT_EQ(static_cast<uint64_t>(st.st_size), 2 * kMiB);
  EXPECT_EQ(lease->extent(2).fd, -1);
}

TEST_F(HugepoolTest, TheRequestArrivesAsMade) {
  Client client = Connect();
  auto lease = client.Acquire(
      Request()
          .Segment(2 * kMiB, Request::Interleave({0, 3}), {1 << 30, 2 << 20}, 1,
                   4096)
          .CopyFrom("lease-1", 8192)
          .Wait(std::chrono::milliseconds(1500))
          .Flags(HP_REQUEST_SEALED | HP_REQUEST_PRIVATE | HP_REQUEST_NO_MAP)
          .Label("app", "test"));
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_EQ(lease->segment(0).data, nullptr);
  const auto request = daemon_.last_request();
  ASSERT_EQ(request.segments_size(), 1);
  const auto& segment = request.segments(0);
  EXPECT_EQ(segment.placement().mode(),
            hugepool::v1::PLACEMENT_MODE_INTERLEAVE);
  EXPECT_THAT(segment.placement().nodes(), ElementsAre(0, 3));
  EXPECT_THAT(segment.page_sizes(), ElementsAre(1 << 30, 2 << 20));
  EXPECT_EQ(segment.max_extents(), 1u);
  EXPECT_EQ(segment.hot_offset(), 4096u);
  EXPECT_EQ(segment.copy_from().lease_id(), "lease-1");
  EXPECT_EQ(segment.copy_from().offset(), 8192u);
  EXPECT_EQ(request.max_wait().seconds(), 1);
  EXPECT_EQ(request.max_wait().nanos(), 500'000'000);
  EXPECT_EQ(request.lifetime(), hugepool::v1::LIFETIME_SESSION);
  EXPECT_TRUE(request.sealed());
  EXPECT_TRUE(request.private_());
  EXPECT_FALSE(request.reopenable());
  EXPECT_EQ(request.labels().at("app"), "test");
  EXPECT_FALSE(request.request_id().empty());
}

TEST_F(HugepoolTest, LocalIsTheNodeOfTheCaller) {
  Client client = Connect();
  auto lease = client.Acquire(Request().Segment(1, Request::Local()));
  ASSERT_TRUE(lease) << lease.error().message();
  unsigned node = 0;
  ASSERT_EQ(getcpu(nullptr, &node), 0);
  EXPECT_THAT(daemon_.last_request().segments(0).placement().nodes(),
              ElementsAre(node));
}

TEST_F(HugepoolTest, NamedLeasesStay) {
  Client client = Connect();
  {
    auto lease = client.Acquire(Request().Segment(1).Named("db"));
    ASSERT_TRUE(lease) << lease.error().message();
    static_cast<char*>(lease->segment(0).data)[5] = 'y';
  }
  EXPECT_EQ(daemon_.lease_count(), 1u);
  auto lease = client.Attach("db");
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_EQ(static_cast<char*>(lease->segment(0).data)[5], 'y');
  EXPECT_TRUE(lease->Release());
  EXPECT_EQ(daemon_.lease_count(), 0u);
  EXPECT_EQ(client.ReleaseName("db").error().code(), HP_NOT_FOUND);
}

TEST_F(HugepoolTest, PartsOfALeaseAreReleased) {
  Client client = Connect();
  auto lease = client.Acquire(Request().Segment(8 * kMiB).Segment(4 * kMiB));
  ASSERT_TRUE(lease) << lease.error().message();
  const auto released =
      lease->ReleaseRanges({{.offset = 2 * kMiB, .size = 4 * kMiB},
                            {.offset = 0, .size = 2 * kMiB, .segment = 1}});
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_FALSE(daemon_.IsReleased(lease->id(), 0, hugepool::MiB(0)));
  EXPECT_TRUE(daemon_.IsReleased(lease->id(), 0, hugepool::MiB(2)));
  EXPECT_TRUE(daemon_.IsReleased(lease->id(), 0, hugepool::MiB(4)));
  EXPECT_FALSE(daemon_.IsReleased(lease->id(), 0, hugepool::MiB(6)));
  EXPECT_TRUE(daemon_.IsReleased(lease->id(), 1, hugepool::MiB(0)));
  // The rest is as it was, and described as it was.
  std::memset(lease->segment(0).data, 1, 2 * kMiB);
  EXPECT_EQ(lease->segment(0).size, 8 * kMiB);
  EXPECT_EQ(lease->standing(), HP_STANDING_HELD);
  const auto twice = lease->ReleaseRanges({{.offset = 0, .size = 4 * kMiB}});
  EXPECT_EQ(twice.error().code(), HP_FAILED_PRECONDITION);
  const auto none = lease->ReleaseRanges({});
  EXPECT_EQ(none.error().code(), HP_INVALID_ARGUMENT);
  EXPECT_EQ(none.error().reason(), HP_REASON_BAD_REQUEST);
  EXPECT_STREQ(none.error().message(), "no ranges to release were given");
  EXPECT_STREQ(none.error().hint(),
               "name some, or release the lease as a whole");
  EXPECT_EQ(daemon_.lease_count(), 1u);
  EXPECT_TRUE(lease->Release());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

// By the C interface, where a list is told by its sizes.
TEST_F(HugepoolTest, RangesOfWrongSizesAreRefused) {
  Client client = Connect();
  auto lease = client.Acquire(Request().Segment(4 * kMiB).Named("parts"));
  ASSERT_TRUE(lease) << lease.error().message();
  hp_client* raw = nullptr;
  ASSERT_EQ(hp_connect(dir_.path().c_str(), &raw, nullptr), HP_OK);
  hp_lease* held = nullptr;
  ASSERT_EQ(hp_attach(raw, "parts", 0, &held, nullptr), HP_OK);
  // As a later version would have them.
  struct Longer {
    hp_range range = HP_RANGE_INIT;
    uint64_t more = 7;
  };
  Longer ranges[2];
  for (Longer& longer : ranges) {
    longer.range.size = sizeof(Longer);
    longer.range.bytes = 2 * kMiB;
  }
  ranges[1].range.offset = 2 * kMiB;
  EXPECT_EQ(hp_release_ranges(held, &ranges[0].range, 2, nullptr), HP_OK);
  EXPECT_TRUE(daemon_.IsReleased(hp_lease_id(held), 0, hugepool::MiB(2)));
  hp_error error = HP_ERROR_INIT;
  ranges[1].range.size = sizeof(hp_range);
  EXPECT_EQ(hp_release_ranges(held, &ranges[0].range, 2, &error),
            HP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "hp_range has no valid size");
  ranges[0].range.size = sizeof(hp_range) - 8;
  EXPECT_EQ(hp_release_ranges(held, &ranges[0].range, 1, nullptr),
            HP_INVALID_ARGUMENT);
  EXPECT_EQ(hp_release_ranges(held, nullptr, 1, nullptr), HP_INVALID_ARGUMENT);
  EXPECT_EQ(hp_release_ranges(held, nullptr, 0, nullptr), HP_INVALID_ARGUMENT);
  EXPECT_EQ(daemon_.lease_count(), 1u);
  EXPECT_EQ(hp_release(held, nullptr), HP_OK);
  hp_close(raw);
}

TEST_F(HugepoolTest, ErrorsSayWhy) {
  Client client = Connect();
  const auto lease = client.Acquire(Request().Segment(1ull << 40));
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), HP_FAILED_PRECONDITION);
  EXPECT_EQ(lease.error().reason(), HP_REASON_NEVER_FITS);
  EXPECT_EQ(lease.error().wanted_bytes(), 1ull << 40);
  EXPECT_EQ(lease.error().available_bytes(), 256 * kMiB);
  EXPECT_EQ(client.Acquire(Request().Segment(0)).error().code(),
            HP_INVALID_ARGUMENT);
}

TEST_F(HugepoolTest, LongMessagesAreCut) {
  Faults faults;
  faults.deny_code = absl::StatusCode::kInternal;
  faults.deny_text = std::string(2000, 'm');
  faults.deny_detail.set_hint(std::string(2000, 'h'));
  daemon_.SetFaults(faults);
  Client client = Connect();
  const auto lease = client.Acquire(Request().Segment(1));
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().message(), std::string(511, 'm'));
  EXPECT_EQ(lease.error().hint(), std::string(255, 'h'));
}

TEST_F(HugepoolTest, ALeaseOutlivesItsClient) {
  std::optional<Lease> lease;
  {
    Client client = Connect();
    auto acquired = client.Acquire(Request().Segment(1));
    ASSERT_TRUE(acquired) << acquired.error().message();
    lease.emplace(acquired.take());
  }
  static_cast<char*>(lease->segment(0).data)[0] = 1;
  EXPECT_TRUE(lease->Release());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

}  // namespace
