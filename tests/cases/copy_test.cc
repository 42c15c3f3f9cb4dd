// Copies of leases on real pages.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/pattern.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPage = 2 * kMiB;

// The source's; every word of it says where it stands.
constexpr Seed kSeed = 7;
uint64_t WordAt(uint64_t place) { return PatternWord(kSeed, place); }

void Fill(const MemorySegment& memory) {
  FillPattern(memory.data, memory.size, kSeed);
}

// Words of `memory`, which is a copy from byte `offset` on, that are wrong.
uint64_t Wrong(const MemorySegment& memory, uint64_t offset, uint64_t size) {
  const auto* words = static_cast<const uint64_t*>(memory.data);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < memory.size / 8; ++i) {
    wrong += words[i] != (i < size / 8 ? WordAt(offset / 8 + i) : 0);
  }
  return wrong;
}

using CopyTest = CaseTest;

TEST_F(CopyTest, HasEveryByteOfItsSourceAndZerosBehind) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  auto source = client.Acquire(Request().Segment(26 * kMiB));
  ASSERT_TRUE(source) << source.error().message();
  Fill(source->segment(0));
  // Offsets and sizes that are no pages, across extents, and all of it. What is
  // touched first does not change what is copied.
  struct Part {
    uint64_t offset, size, hot;
  };
  for (const Part& part :
       {Part{0, 26 * kMiB, 0}, Part{4096, 17 * kMiB + 8, 9 * kMiB + 3},
        Part{15 * kMiB, 3 * kMiB, 3 * kMiB - 1}, Part{26 * kMiB - 8, 8, 0}}) {
    auto copy = client.Acquire(Request()
                                   .Segment(part.size, {}, {kPage}, 0, part.hot)
                                   .CopyFrom(source->id(), part.offset)
                                   .Wait(std::chrono::seconds(10)));
    ASSERT_TRUE(copy) << copy.error().message();
    EXPECT_EQ(Wrong(copy->segment(0), part.offset, part.size), 0u)
        << part.size << " from " << part.offset;
  }
  EXPECT_EQ(Wrong(source->segment(0), 0, 26 * kMiB), 0u) << "untouched";
}

// Where the clean memory must stay zero until it is looked at, it is populated;
// else what is made for a copy is filled as it comes.
class WaitingCopyTest : public CopyTest,
                        public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Ways, WaitingCopyTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Verified" : "Filled";
                         });

TEST_P(WaitingCopyTest, WaitsForMemoryAsAnyRequest) {
  const char* const more = GetParam() ? "verify: {at_grant: true}\n" : "";
  if (!StartWithTwoShapes(more)) return;
  Client client = Connect();
  auto source = client.Acquire(Request().Segment(80 * kMiB));
  ASSERT_TRUE(source) << source.error().message();
  Fill(source->segment(0));
  auto other = client.Acquire(Request().Segment(40 * kMiB));
  ASSERT_TRUE(other) << other.error().message();
  const Request copying =
      Request().Segment(48 * kMiB).CopyFrom(source->id(), 8 * kMiB);
  auto refused = client.Acquire(copying);
  ASSERT_FALSE(refused);
  ASSERT_TRUE(other->Release());
  auto copy = client.Acquire(Request(copying).Wait(std::chrono::seconds(10)));
  ASSERT_TRUE(copy) << copy.error().message();
  EXPECT_EQ(Wrong(copy->segment(0), 8 * kMiB, 48 * kMiB), 0u);
  auto status = daemon_->GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  const bool filled = status->pools(0).filled_bytes() > 0;
  EXPECT_EQ(filled, !GetParam()) << status->pools(0).ShortDebugString();
}

// The holder may punch or write while it is read; nobody is hurt.
TEST_F(CopyTest, AHoleInTheSourceReadsAsZeroAndStaysAHole) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  auto source = client.Acquire(Request().Segment(16 * kMiB));
  ASSERT_TRUE(source) << source.error().message();
  const MemorySegment memory = source->segment(0);
  Fill(memory);
  ASSERT_EQ(
      madvise(static_cast<char*>(memory.data) + 2 * kPage, kPage, MADV_REMOVE),
      0);
  auto copy =
      client.Acquire(Request().Segment(16 * kMiB).CopyFrom(source->id()));
  ASSERT_TRUE(copy) << copy.error().message();
  const auto* words = static_cast<const uint64_t*>(copy->segment(0).data);
  for (uint64_t i = 0; i < 16 * kMiB / 8; ++i) {
    const bool hole = i >= 2 * kPage / 8 && i < 3 * kPage / 8;
    ASSERT_EQ(words[i], hole ? 0 : WordAt(i)) << i;
  }
}

TEST_F(CopyTest, BadSourcesAreRefusedInWords) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  auto theirs = NewClient();
  const Line held = theirs->Ask(Acquire2M(2));
  ASSERT_TRUE(held.ok()) << held;
  auto ours = client.Acquire(Request().Segment(4 * kMiB));
  ASSERT_TRUE(ours) << ours.error().message();
  auto gone = client.Acquire(Request().Segment(kMiB));
  ASSERT_TRUE(gone) << gone.error().message();
  const std::string gone_id = gone->id();
  ASSERT_TRUE(gone->Release());

  const auto refusal = [&](const std::string& id, uint64_t offset,
                           uint64_t hot) -> std::string {
    auto lease = client.Acquire(
        Request().Segment(2 * kMiB, {}, {}, 0, hot).CopyFrom(id, offset));
    return lease ? "granted" : lease.error().message();
  };
  EXPECT_NE(refusal(held.Get("lease"), 0, 0).find("has no lease"),
            std::string::npos)
      << refusal(held.Get("lease"), 0, 0);
  EXPECT_NE(refusal(gone_id, 0, 0).find("has no lease"), std::string::npos);
  EXPECT_NE(refusal("nonsense", 0, 0).find("no lease id"), std::string::npos);
  EXPECT_NE(refusal(ours->id(), 3 * kMiB, 0).find("are not in the 4 MiB"),
            std::string::npos)
      << refusal(ours->id(), 3 * kMiB, 0);
  EXPECT_NE(refusal(ours->id(), 0, 2 * kMiB).find("outside of the segment"),
            std::string::npos);
}

TEST_F(CopyTest, HpctlCopiesToo) {
  if (!StartWithTwoShapes()) return;
  Client client = Connect();
  auto source = client.Acquire(Request().Segment(4 * kMiB));
  ASSERT_TRUE(source) << source.error().message();
  std::strcpy(static_cast<char*>(source->segment(0).data) + kMiB, "hello");
  // The command maps what it got and prints the word.
  const ProgramResult run = RunProgram(
      {RunfilePath("client/hpctl/hpctl"), "--socket", daemon_->dir(), "run",
       "--size", "2M", "--copy-from", absl::StrCat(source->id(), "@1M"), "--",
       "/bin/sh", "-c", "head -c 5 /proc/self/fd/{fd}"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.output, "hello");
}

}  // namespace
}  // namespace hugepool::testing
