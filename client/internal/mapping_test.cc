#include "client/internal/mapping.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/testing/access.h"
#include "client/testing/mappings_used_up.h"
#include "client/testing/sanitized.h"
#include "daemon/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::hugepool::testing::IsReadable;
using ::hugepool::testing::MappingsUsedUp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

UniqueFd Memfd(Bytes size) {
  UniqueFd fd(memfd_create("mapping_test", MFD_CLOEXEC));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size.value())), 0);
  return fd;
}

bool IsMapped(const void* address) {
  unsigned char present;
  return mincore(const_cast<void*>(address), 4096, &present) == 0;
}

TEST(MappingTest, JoinsPiecesInOneRange) {
  const UniqueFd a = Memfd(MiB(4));
  const UniqueFd b = Memfd(MiB(2));
  auto range = MapPieces(
      MiB(6), k2M, {{a.get(), Bytes(0), MiB(4)}, {b.get(), MiB(4), MiB(2)}},
      false);
  ASSERT_TRUE(range.ok()) << range.status();
  char* const p = static_cast<char*>(range->address());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % MiB(2).value(), 0u);
  p[0] = 'a';
  p[MiB(4).value()] = 'b';
  char c = 0;
  EXPECT_EQ(pread(a.get(), &c, 1, 0), 1);
  EXPECT_EQ(c, 'a');
  EXPECT_EQ(pread(b.get(), &c, 1, 0), 1);
  EXPECT_EQ(c, 'b');
}

TEST(MappingTest, AGiBBeginsAtAGiB) {
  const UniqueFd fd = Memfd(GiB(1));
  auto range = MapPieces(GiB(1), k2M, {{fd.get(), Bytes(0), GiB(1)}}, false);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(range->address()) % GiB(1).value(), 0u);
}

// The place of the last one is tried first; what stands there is never touched.
TEST(MappingTest, GiBsFindRoomBesideOthers) {
  const UniqueFd fd = Memfd(GiB(2));
  const auto map = [&](uint64_t gib) {
    auto range =
        MapPieces(GiB(gib), k2M, {{fd.get(), Bytes(0), GiB(gib)}}, false);
    EXPECT_TRUE(range.ok()) << range.status();
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(range->address()) % GiB(1).value(), 0u);
    return *std::move(range);
  };
  std::vector<MappedRange> ranges;
  for (int round = 0; round < 20; ++round) {
    ranges.push_back(map(1 + round % 2));
    if (round % 3 == 2) ranges.erase(ranges.begin() + round / 3);
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(ranges[i].address());
      for (size_t k = 0; k < i; ++k) {
        const auto other = reinterpret_cast<uintptr_t>(ranges[k].address());
        EXPECT_TRUE(begin + ranges[i].size().value() <= other ||
                    other + ranges[k].size().value() <= begin);
      }
    }
  }
  // Somebody else has taken the place.
  void* const place = ranges.back().address();
  const Bytes size = ranges.back().size();
  ranges.pop_back();
  void* const foreign =
      mmap(place, 4096, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(foreign, place);
  *static_cast<char*>(foreign) = 'x';
  ranges.push_back(map(size == GiB(1) ? 1 : 2));
  EXPECT_NE(ranges.back().address(), place);
  EXPECT_EQ(*static_cast<char*>(foreign), 'x');
  munmap(foreign, 4096);
}

TEST(MappingTest, ResetUnmapsTheWholeRange) {
  const UniqueFd fd = Memfd(MiB(4));
  auto range = MapPieces(MiB(4), k2M, {{fd.get(), Bytes(0), MiB(4)}}, false);
  ASSERT_TRUE(range.ok()) << range.status();
  const char* const p = static_cast<char*>(range->address());
  ASSERT_TRUE(IsMapped(p + MiB(4).value() - 4096));
  range->Reset();
  EXPECT_FALSE(IsMapped(p));
  EXPECT_FALSE(IsMapped(p + MiB(4).value() - 4096));
}

TEST(MappingTest, RefusesWhatDoesNotCoverTheSegment) {
  const UniqueFd fd = Memfd(MiB(8));
  const std::vector<std::vector<MapPiece>> bad = {
      {},                                                        // nothing
      {{fd.get(), Bytes(0), MiB(2)}},                            // too little
      {{fd.get(), MiB(2), MiB(2)}, {fd.get(), MiB(4), MiB(2)}},  // a gap
      {{fd.get(), Bytes(0), MiB(8)}},                            // too much
      {{fd.get(), Bytes(0), KiB(4)}, {fd.get(), KiB(4), MiB(4) - KiB(4)}},
  };
  for (const auto& pieces : bad) {
    EXPECT_EQ(MapPieces(MiB(4), k2M, pieces, false).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(MapPieces(Bytes(0), k2M, {}, false).ok());
  EXPECT_FALSE(MapPieces(Bytes(uint64_t{1} << 63), k2M,
                         {{fd.get(), Bytes(0), Bytes(uint64_t{1} << 63)}},
                         false)
                   .ok());
}

// The kernel's flags of the mapping that begins at `address`.
std::string VmFlags(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  const std::string begin =
      absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(address)), "-");
  bool found = false;
  for (std::string line; std::getline(smaps, line);) {
    found = found || absl::StartsWith(line, begin);
    if (found && absl::StartsWith(line, "VmFlags:")) return line + " ";
  }
  return "";
}

// N24.
TEST(MappingTest, DontForkKeepsItFromChildren) {
  const UniqueFd fd = Memfd(MiB(2));
  auto plain = MapPieces(MiB(2), k2M, {{fd.get(), Bytes(0), MiB(2)}}, false);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(VmFlags(plain->address()), Not(HasSubstr(" dc ")));
  auto kept = MapPieces(MiB(2), k2M, {{fd.get(), Bytes(0), MiB(2)}}, true);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(VmFlags(kept->address()), HasSubstr(" dc "));
}

// N26: ENOMEM from mmap is the count of mappings, and the error says so.
TEST(MappingTest, N26NamesTheLimitOfMappings) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer needs mappings of its own";
  if (!MappingsUsedUp::Possible()) {
    GTEST_SKIP() << "vm.max_map_count is " << MappingsUsedUp::Limit()
                 << ": too many to make";
  }
  const UniqueFd fd = Memfd(MiB(8));
  auto whole = MapPieces(MiB(8), k2M, {{fd.get(), Bytes(0), MiB(8)}}, false);
  ASSERT_TRUE(whole.ok()) << whole.status();
  absl::Status map;
  absl::Status cut;
  {
    const MappingsUsedUp all;
    map = MapPieces(MiB(8), k2M, {{fd.get(), Bytes(0), MiB(8)}}, false).status();
    cut = whole->SetAccess(MiB(2), MiB(2), Access::kNone);
  }
  const auto limit = HasSubstr("vm.max_map_count is " +
                               std::to_string(MappingsUsedUp::Limit()));
  EXPECT_EQ(map.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(map.message()),
              AllOf(limit, HasSubstr("ask for fewer, larger extents")));
  EXPECT_EQ(cut.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(cut.message()),
              AllOf(limit, HasSubstr("mprotect(2 MiB, offset 2097152)"),
                    HasSubstr("release fewer, larger ranges")));
}

TEST(MappingTest, AccessGoesAndComesAgain) {
  const UniqueFd a = Memfd(MiB(4));
  const UniqueFd b = Memfd(MiB(4));
  auto range = MapPieces(
      MiB(8), k2M, {{a.get(), Bytes(0), MiB(4)}, {b.get(), MiB(4), MiB(4)}},
      false);
  ASSERT_TRUE(range.ok()) << range.status();
  char* const p = static_cast<char*>(range->address());
  p[MiB(2).value()] = 'a';
  // Over the border of the two.
  ASSERT_TRUE(range->SetAccess(MiB(2), MiB(4), Access::kNone).ok());
  EXPECT_TRUE(IsReadable(p + MiB(2).value() - 1));
  EXPECT_FALSE(IsReadable(p + MiB(2).value()));
  EXPECT_FALSE(IsReadable(p + MiB(6).value() - 1));
  EXPECT_TRUE(IsReadable(p + MiB(6).value()));
  EXPECT_TRUE(IsMapped(p + MiB(2).value())) << "its addresses stay taken";
  ASSERT_TRUE(range->SetAccess(MiB(2), MiB(4), Access::kReadWrite).ok());
  EXPECT_EQ(p[MiB(2).value()], 'a');
  for (const auto& [offset, size] :
       {std::pair(MiB(8), MiB(2)), std::pair(MiB(2), MiB(8)),
        std::pair(Bytes(~uint64_t{0}), MiB(2))}) {
    EXPECT_EQ(range->SetAccess(offset, size, Access::kNone).code(),
              absl::StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE(range->SetAccess(MiB(2), MiB(2), Access::kNone).ok());
  range->Reset();
  EXPECT_FALSE(IsMapped(p));
  EXPECT_FALSE(IsMapped(p + MiB(2).value()));
  EXPECT_FALSE(IsMapped(p + MiB(8).value() - 4096));
}

TEST(MappingTest, AnotherEnomemDoesNotBlameTheLimitOfMappings) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer needs address space";
  const UniqueFd fd = Memfd(MiB(2));
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  const rlimit small = {.rlim_cur = MiB(1).value(), .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const auto range =
      MapPieces(MiB(2), k2M, {{fd.get(), Bytes(0), MiB(2)}}, false);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  ASSERT_FALSE(range.ok());
  EXPECT_EQ(range.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(range.status().message()), HasSubstr("RLIMIT_AS"));
}

}  // namespace
}  // namespace hugepool::client
