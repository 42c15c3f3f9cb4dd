#include "client/internal/released_parts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/internal/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two segments: 8 MiB of 2 MiB pages, and 3 GiB of 1 GiB pages.
v1::Lease Lease() {
  v1::Lease lease;
  auto* segment = lease.add_segments();
  segment->set_granted_bytes(MiB(8).value());
  segment->set_page_size(MiB(2).value());
  segment = lease.add_segments();
  segment->set_granted_bytes(GiB(3).value());
  segment->set_page_size(GiB(1).value());
  return lease;
}

constexpr uint64_t kTop = ~uint64_t{0};

TEST(ReleasedPartsTest, BadRangesAreRefused) {
  const ReleasedParts parts;
  const std::vector<std::pair<std::vector<LeaseRange>, std::string>> bad = {
      {{}, "no ranges to release were given"},
      {{{2, MiB(0), MiB(2)}},
       "ranges: 2097152 bytes from byte 0 of segment 2 is no segment of the "
       "lease"},
      {{{~0u, MiB(0), MiB(2)}}, "is no segment of the lease"},
      {{{0, MiB(2), MiB(0)}},
       "ranges: 0 bytes from byte 2097152 of segment 0 are not whole pages of "
       "2 "
       "MiB"},
      {{{0, MiB(6), MiB(4)}},
       "ranges: 4194304 bytes from byte 6291456 of segment 0 are not in it"},
      {{{0, MiB(8), MiB(2)}}, "are not in it"},
      {{{0, Bytes(kTop - MiB(2).value() + 1), MiB(2)}}, "are not in it"},
      {{{0, MiB(2), Bytes(kTop - MiB(2).value() + 1)}}, "are not in it"},
      {{{0, MiB(1), MiB(2)}}, "are not whole pages of 2 MiB"},
      {{{0, MiB(0), Bytes(4096)}}, "are not whole pages of 2 MiB"},
      {{{1, MiB(0), MiB(2)}}, "are not whole pages of 1 GiB"},
      {{{1, MiB(2), GiB(1)}}, "are not whole pages of 1 GiB"},
      {{{0, MiB(4), MiB(2)}, {0, MiB(0), MiB(2)}, {0, MiB(4), MiB(2)}},
       "ranges: 2097152 bytes from byte 4194304 of segment 0 overlap 2097152 "
       "bytes from byte 4194304 of segment 0"},
      {{{0, MiB(0), MiB(8)}, {0, MiB(2), MiB(2)}}, "overlap"},
      {{{0, MiB(0), MiB(4)}, {0, MiB(2), MiB(4)}}, "overlap"},
      // A good one does not help a bad one.
      {{{0, MiB(0), MiB(2)}, {0, MiB(6), MiB(4)}}, "are not in it"},
  };
  for (const auto& [ranges, text] : bad) {
    const auto checked = parts.Check(Lease(), ranges);
    EXPECT_EQ(checked.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_EQ(ReasonOf(checked.status()), v1::ERROR_REASON_BAD_REQUEST);
    EXPECT_THAT(std::string(checked.status().message()), HasSubstr(text));
  }
}

TEST(ReleasedPartsTest, RangesThatTouchAreJoined) {
  const ReleasedParts parts;
  const auto checked = parts.Check(Lease(), {{1, GiB(1), GiB(2)},
                                             {0, MiB(6), MiB(2)},
                                             {0, MiB(2), MiB(2)},
                                             {0, MiB(0), MiB(2)}});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT(checked->ranges, ElementsAre(LeaseRange{0, MiB(0), MiB(4)},
                                           LeaseRange{0, MiB(6), MiB(2)},
                                           LeaseRange{1, GiB(1), GiB(2)}));
  // The end of one segment does not touch the beginning of the next.
  const auto apart =
      parts.Check(Lease(), {{0, MiB(6), MiB(2)}, {1, GiB(0), GiB(1)}});
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->ranges.size(), 2u);
}

TEST(ReleasedPartsTest, NothingIsReleasedTwice) {
  // In every order, so that parts are joined on both sides.
  const std::vector<std::vector<uint64_t>> orders = {
      {0, 2, 4}, {4, 2, 0}, {0, 4, 2}, {2, 0, 4}};
  for (const auto& order : orders) {
    ReleasedParts parts;
    for (const uint64_t offset : order) {
      const auto checked = parts.Check(Lease(), {{0, MiB(offset), MiB(2)}});
      ASSERT_TRUE(checked.ok()) << checked.status();
      parts.Add(*checked, true);
    }
    for (const LeaseRange& again :
         {LeaseRange{0, MiB(0), MiB(2)}, LeaseRange{0, MiB(2), MiB(2)},
          LeaseRange{0, MiB(4), MiB(4)}, LeaseRange{0, MiB(0), MiB(8)}}) {
      const auto twice = parts.Check(Lease(), {again});
      EXPECT_EQ(twice.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(ReasonOf(twice.status()), v1::ERROR_REASON_UNSPECIFIED);
      EXPECT_THAT(std::string(twice.status().message()),
                  HasSubstr("was released before"));
    }
    EXPECT_TRUE(parts.Check(Lease(), {{0, MiB(6), MiB(2)}}).ok());
    EXPECT_TRUE(parts.Check(Lease(), {{1, GiB(0), GiB(3)}}).ok());
  }
}

TEST(ReleasedPartsTest, ACallWithoutAnAnswerCanBeRepeatedAsItWas) {
  ReleasedParts parts;
  const std::vector<LeaseRange> ranges = {{0, MiB(4), MiB(2)},
                                          {0, MiB(0), MiB(2)}};
  const auto first = parts.Check(Lease(), ranges);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->repeated);
  parts.Add(*first, false);
  // Not in parts.
  EXPECT_EQ(parts.Check(Lease(), {ranges[0]}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (const bool answered : {false, true}) {
    const auto again = parts.Check(Lease(), {ranges[1], ranges[0]});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->repeated);
    parts.Add(*again, answered);
  }
  EXPECT_EQ(parts.Check(Lease(), ranges).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ReleasedPartsTest, HowManyGoIntoACall) {
  v1::Lease lease;
  auto* const segment = lease.add_segments();
  segment->set_granted_bytes(GiB(1024).value());
  segment->set_page_size(MiB(2).value());
  const ReleasedParts parts;
  std::vector<LeaseRange> ranges;
  for (uint64_t i = 0; i < kMaxRanges; ++i) {
    ranges.push_back({0, MiB(4 * i), MiB(2)});
  }
  EXPECT_TRUE(parts.Check(lease, ranges).ok());
  ranges.push_back({0, MiB(4 * kMaxRanges), MiB(2)});
  const auto more = parts.Check(lease, ranges);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(more.status().message(),
            "65537 ranges that do not touch, of which one call takes 65536");
  // One by one, but next to each other.
  ranges.clear();
  for (uint64_t i = 0; i < 2 * kMaxRanges; ++i) {
    ranges.push_back({0, MiB(2 * i), MiB(2)});
  }
  const auto joined = parts.Check(lease, ranges);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->ranges.size(), 1u);
}

}  // namespace
}  // namespace hugepool::client
