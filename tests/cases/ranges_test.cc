// Parts of leases on real pages: released by their holders, punched by them (T3),
// and taken where the pool runs short.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/pattern.h"
#include "tests/harness/recount.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPage = 2 * kMiB;
constexpr Seed kSeed = 11;

class RangesTest : public CaseTest {
 protected:
  // All there is, every word of it saying where it stands.
  Lease HoldAll(Client& client) {
    auto lease = client.Acquire(Request().Segment(64 * kPage));
    EXPECT_TRUE(lease) << lease.error().message();
    const MemorySegment memory = lease->segment(0);
    FillPattern(memory.data, memory.size, kSeed);
    return lease.take();
  }
  v1::PoolStatus Pool() {
    auto status = daemon_->GetStatus();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? status->pools(0) : v1::PoolStatus();
  }
  // The pages of `memory` but for those released read what was written.
  static void ExpectPattern(const MemorySegment& memory,
                            const std::function<bool(std::size_t)>& released) {
    const auto* words = static_cast<const uint64_t*>(memory.data);
    for (std::size_t page = 0; page < memory.size / kPage; ++page) {
      if (released(page)) continue;
      for (std::size_t i = page * kPage / 8; i < (page + 1) * kPage / 8; ++i) {
        ASSERT_EQ(words[i], PatternWord(kSeed, i)) << "page " << page;
      }
    }
  }
  // Until the pool's status says so, or ten seconds have passed.
  bool Becomes(const std::function<bool(const v1::PoolStatus&)>& so) {
    for (int i = 0; i < 1000; ++i) {
      if (so(Pool())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

// The issue's own words: refilled from partly released extents without any live
// lease noticing.
TEST_F(RangesTest, AShortPoolIsRefilledFromWhatWasReleased) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  Lease lease = HoldAll(client);
  const MemorySegment memory = lease.segment(0);
  const auto released = [](std::size_t page) { return page % 4 == 1; };
  std::vector<MemoryRange> ranges;
  for (std::size_t page = 0; page < 64; ++page) {
    if (released(page)) ranges.push_back({page * kPage, kPage, 0});
  }
  ASSERT_TRUE(lease.ReleaseRanges(ranges));
  // One waits for what only they can give.
  auto other = client.Acquire(
      Request().Segment(16 * kPage).Wait(std::chrono::seconds(20)));
  ASSERT_TRUE(other) << other.error().message();
  const auto* words = static_cast<const uint64_t*>(other->segment(0).data);
  for (std::size_t i = 0; i < 16 * kPage / 8; ++i) ASSERT_EQ(words[i], 0u) << i;
  ExpectPattern(memory, released);
  const v1::PoolStatus pool = Pool();
  EXPECT_EQ(pool.gone_bytes(), 16 * kPage);
  EXPECT_EQ(pool.split_bytes(), 16 * kPage);
  EXPECT_EQ(pool.held_bytes(), 64 * kPage);
  EXPECT_EQ(pool.regained_bytes(), 0u);
  auto status = daemon_->GetStatus();
  ASSERT_EQ(status->deferred_size(), 1);
  EXPECT_EQ(status->deferred(0).releases(), 16u);
  ASSERT_TRUE(other->Release());
  ASSERT_TRUE(lease.Release());
  ExpectAllBack();
  ExpectServes(64);
}

TEST_F(RangesTest, BadRangesChangeNothing) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  auto lease = client.Acquire(Request().Segment(8 * kPage));
  ASSERT_TRUE(lease) << lease.error().message();
  const std::string id = lease->id();
  const auto hpctl = [&](const std::string& lease_id,
                         const std::string& range) {
    return RunProgram({RunfilePath("client/hpctl/hpctl"), "--socket",
                       daemon_->dir(), "lease", "release", lease_id, "--range",
                       range});
  };
  for (const std::string range : {"0:16M+2M", "0:1M+2M", "0:0+3M", "1:0+2M"}) {
    const ProgramResult run = hpctl(id, range);
    EXPECT_NE(run.exit_code, 0) << range << ": " << run.output;
    EXPECT_NE(run.errors, "") << range;
  }
  EXPECT_EQ(hpctl("lease-0000000000000001", "0:0+2M").exit_code, 7);
  EXPECT_EQ(hpctl(id, "0:4M+2M").exit_code, 0);
  const ProgramResult twice = hpctl(id, "0:4M+2M");
  EXPECT_NE(twice.exit_code, 0);
  EXPECT_NE(twice.errors.find("released before"), std::string::npos)
      << twice.errors;
  // The pool is not short, so nobody has looked at the queue.
  EXPECT_EQ(hpctl(id, "0:8M+4M").exit_code, 0);
  auto status = daemon_->GetStatus();
  EXPECT_EQ(status->deferred(0).releases(), 2u);
  EXPECT_EQ(status->deferred(0).early_exits(), 1u) << "one lock an extent";
  EXPECT_EQ(status->deferred(0).extents(), 1u);
  EXPECT_EQ(Pool().gone_bytes(), 0u);
}

// T3: a holder punches holes in its lease; nobody is hurt, the books follow, and
// it comes back whole or is replaced.
TEST_F(RangesTest, T3PunchedPagesAreNoticedAndReplaced) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  Lease lease = HoldAll(client);
  const MemorySegment memory = lease.segment(0);
  ASSERT_EQ(madvise(static_cast<char*>(memory.data) + 8 * kPage, 5 * kPage,
                    MADV_REMOVE),
            0);
  // Somebody else may be faster at the pages that came free.
  void* const grabbed =
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | (21 << 26), -1, 0);
  const std::size_t others = grabbed == MAP_FAILED ? 0 : 2 * kPage;
  EXPECT_TRUE(Becomes([&](const v1::PoolStatus& pool) {
    return pool.clean_bytes() + others == 5 * kPage;
  })) << Pool().ShortDebugString();
  ExpectPattern(memory,
                [](std::size_t page) { return page >= 8 && page < 13; });
  EXPECT_EQ(Pool().gone_bytes(), 5 * kPage);
  if (others > 0) munmap(grabbed, others);
  EXPECT_TRUE(Becomes([](const v1::PoolStatus& pool) {
    return pool.clean_bytes() == 5 * kPage;
  })) << Pool().ShortDebugString();
  ASSERT_TRUE(lease.Release());
  ExpectAllBack();
  ExpectServes(64);
}

// K5: of a discard that is no whole pages the kernel frees the pages within, and
// zeroes the edges.
TEST_F(RangesTest, T3ADiscardThatIsNoWholePagesTakesThoseWithin) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  Lease lease = HoldAll(client);
  const MemorySegment memory = lease.segment(0);
  if (madvise(static_cast<char*>(memory.data) + kMiB, 4 * kMiB, MADV_REMOVE) !=
      0) {
    // Where madvise() wants whole pages, the descriptor's call may not.
    ASSERT_EQ(errno, EINVAL);
    ASSERT_EQ(fallocate(lease.extent(0).fd,
                        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kMiB,
                        4 * kMiB),
              0);
  }
  EXPECT_TRUE(Becomes([](const v1::PoolStatus& pool) {
    return pool.gone_bytes() == kPage && pool.clean_bytes() == kPage;
  })) << Pool().ShortDebugString();
  ExpectPattern(memory, [](std::size_t page) { return page < 3; });
  ASSERT_TRUE(lease.Release());
  ExpectAllBack();
  ExpectServes(64);
}

// What a holder takes back without asking is found, charged and shown; nobody
// else's memory is touched by it.
TEST_F(RangesTest, WhatAHolderTakesBackIsNoticed) {
  if (!StartWithTwoShapes("verify: {interval: 1s}\n", /*beyond=*/4)) return;
  Client client = Connect();
  Lease lease = HoldAll(client);
  ASSERT_TRUE(lease.ReleaseRanges({{0, 4 * kPage, 0}}));
  ASSERT_TRUE(Becomes([](const v1::PoolStatus& pool) {
    return pool.clean_bytes() == 4 * kPage;
  })) << Pool().ShortDebugString();
  // The library has taken it out of our mapping; the descriptor is still there.
  void* const again = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED,
                           lease.extent(0).fd, 0);
  ASSERT_NE(again, MAP_FAILED);
  *static_cast<volatile char*>(again) = 1;
  EXPECT_TRUE(Becomes([](const v1::PoolStatus& pool) {
    return pool.regained_bytes() == kPage;
  })) << Pool().ShortDebugString();
  EXPECT_EQ(Pool().gone_bytes(), 3 * kPage);
  EXPECT_EQ(Pool().clean_bytes(), 4 * kPage) << "not of these";
  munmap(again, kPage);
  ASSERT_TRUE(lease.Release());
  EXPECT_TRUE(Becomes([](const v1::PoolStatus& pool) {
    return pool.clean_bytes() == 64 * kPage;
  })) << Pool().ShortDebugString();
  ExpectServes(64);
}

}  // namespace
}  // namespace hugepool::testing
