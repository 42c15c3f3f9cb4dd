#include "daemon/clear/calibration.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

using ::testing::HasSubstr;

TEST(Calibration, MeasuresEveryRoutineTheFastestFirst) {
  constexpr size_t kSize = 1 << 20;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, kSize));
  std::fill(memory, memory + kSize, std::byte{7});
  const auto rates = MeasureStores(memory, Bytes(kSize), *Clock::Real());
  EXPECT_EQ(rates.size(), SupportedStoreRoutines().size());
  double last = rates.front().zero_rate;
  for (const RoutineRate& rate : rates) {
    EXPECT_GT(rate.zero_rate, 0) << rate.routine->name;
    EXPECT_LE(rate.zero_rate, last);
    last = rate.zero_rate;
  }
  EXPECT_TRUE(std::all_of(memory, memory + kSize,
                          [](std::byte b) { return b == std::byte{0}; }));
  std::free(memory);
}

// A clock that advances by what each look at it is told to cost.
class SteppingClock : public Clock {
 public:
  explicit SteppingClock(absl::Duration step) : step_(step) {}
  absl::Time Now() const override { return now_ += step_; }
  absl::Time WallNow() const override { return now_; }

 private:
  const absl::Duration step_;
  mutable absl::Time now_ = absl::UnixEpoch();
};

TEST(Calibration, WhatIsVerySlowIsTriedOnce) {
  std::vector<std::byte> memory(128);
  auto* const start = reinterpret_cast<std::byte*>(
      (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63});
  SteppingClock slow(absl::Seconds(1));
  const absl::Time begin = slow.WallNow();
  const auto rates = MeasureStores(start, Bytes(64), slow);
  EXPECT_EQ(slow.WallNow() - begin, absl::Seconds(2) * rates.size());
}

TEST(Calibration, AutoIsTheFastest) {
  const StoreRoutine& plain = PlainStores();
  const auto chosen = ChooseStores("auto", {{&plain, 2.0}, {nullptr, 1.0}});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(*chosen, &plain);
}

TEST(Calibration, AutoWithoutFiguresIsTheMostPromising) {
  const auto chosen = ChooseStores("auto", {});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(*chosen, SupportedStoreRoutines().front());
}

TEST(Calibration, AName) {
  for (const StoreRoutine* routine : SupportedStoreRoutines()) {
    const auto chosen = ChooseStores(routine->name, {{&PlainStores(), 9.0}});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(*chosen, routine);
  }
}

TEST(Calibration, AnUnknownNameIsRefusedWithThoseThatThereAre) {
  for (const char* name : {"avx1024", "", "AUTO"}) {
    const auto chosen = ChooseStores(name, {});
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("auto, "));
    EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("plain"));
  }
}

}  // namespace
}  // namespace hugepool
