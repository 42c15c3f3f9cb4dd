#include "daemon/clear/store_routines.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace hugepool {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kGuard = 256;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory NewMemory(size_t length) {
  return Memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, (length + 4095) & ~4095)));
}

std::byte Pattern(size_t i) {
  return static_cast<std::byte>(1 + (i * 7 + i / 251) % 255);
}

class StoreRoutinesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    routine_ = FindStoreRoutine(GetParam());
    ASSERT_NE(routine_, nullptr);
    if (!routine_->supported()) {
      GTEST_SKIP() << "this CPU has no " << routine_->name;
    }
  }
  const StoreRoutine* routine_ = nullptr;
};

// Lengths around the sizes of lines, vectors, pages.
std::vector<size_t> Lengths() {
  std::vector<size_t> lengths;
  for (size_t lines : {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 16384}) {
    lengths.push_back(lines * kLine);
  }
  return lengths;
}

TEST_P(StoreRoutinesTest, ZeroesExactlyTheRange) {
  for (const size_t length : Lengths()) {
    for (const size_t shift : {size_t{0}, kLine, 3 * kLine}) {
      const size_t start = kGuard + shift;
      const size_t total = start + length + kGuard;
      Memory memory = NewMemory(total);
      for (size_t i = 0; i < total; ++i) memory.get()[i] = Pattern(i);
      routine_->zero(memory.get() + start, length);
      for (size_t i = 0; i < total; ++i) {
        const bool inside = i >= start && i < start + length;
        ASSERT_EQ(memory.get()[i], inside ? std::byte{0} : Pattern(i))
            << "byte " << i << " of a range of " << length << " at " << start;
      }
    }
  }
}

TEST_P(StoreRoutinesTest, CopiesExactlyTheRange) {
  for (const size_t length : Lengths()) {
    const size_t total = kGuard + length + kGuard;
    Memory from = NewMemory(total);
    Memory to = NewMemory(total);
    for (size_t i = 0; i < total; ++i) {
      from.get()[i] = Pattern(i);
      to.get()[i] = std::byte{0};
    }
    routine_->copy(to.get() + kGuard, from.get() + kGuard, length);
    for (size_t i = 0; i < total; ++i) {
      const bool inside = i >= kGuard && i < kGuard + length;
      ASSERT_EQ(to.get()[i], inside ? Pattern(i) : std::byte{0}) << i;
      ASSERT_EQ(from.get()[i], Pattern(i)) << i;
    }
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const StoreRoutine& r : AllStoreRoutines()) names.push_back(r.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Routines, StoreRoutinesTest,
                         ::testing::ValuesIn(Names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(StoreRoutines, NamesAreUniqueAndPlainIsLast) {
  std::vector<std::string> names = Names();
  EXPECT_EQ(names.back(), "plain");
  EXPECT_STREQ(PlainStores().name, "plain");
  EXPECT_FALSE(PlainStores().streams);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(StoreRoutines, AnUnknownNameIsNone) {
  EXPECT_EQ(FindStoreRoutine("avx1024"), nullptr);
  EXPECT_EQ(FindStoreRoutine(""), nullptr);
}

TEST(StoreRoutines, PlainIsAlwaysSupported) {
  const auto supported = SupportedStoreRoutines();
  ASSERT_FALSE(supported.empty());
  EXPECT_EQ(supported.back(), &PlainStores());
}

}  // namespace
}  // namespace hugepool
