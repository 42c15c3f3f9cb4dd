#include "daemon/clear/calibration.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "daemon/base/views.h"

namespace hugepool {
namespace {

constexpr int kRounds = 3;
// Zeroing 64 MiB at 0.3 GB/s: no CPU of today, but an emulator.
constexpr absl::Duration kTooSlow = absl::Milliseconds(200);

}  // namespace

std::vector<RoutineRate> MeasureStores(std::byte* memory, Bytes size,
                                       const Clock& clock) {
  const auto routines = SupportedStoreRoutines();
  std::vector<absl::Duration> best(routines.size(), absl::InfiniteDuration());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < routines.size(); ++i) {
      if (round > 0 && best[i] > kTooSlow) continue;
      const absl::Time begin = clock.Now();
      routines[i]->zero(memory, size.value());
      best[i] = std::min(best[i], clock.Now() - begin);
    }
  }
  std::vector<RoutineRate> rates;
  for (size_t i = 0; i < routines.size(); ++i) {
    // A clock that did not move says nothing.
    const double seconds = std::max(absl::ToDoubleSeconds(best[i]), 1e-9);
    rates.push_back({routines[i], static_cast<double>(size.value()) / seconds});
  }
  std::stable_sort(rates.begin(), rates.end(),
                   [](const RoutineRate& a, const RoutineRate& b) {
                     return a.zero_rate > b.zero_rate;
                   });
  return rates;
}

absl::StatusOr<const StoreRoutine*> ChooseStores(
    std::string_view name, const std::vector<RoutineRate>& rates) {
  const auto supported = SupportedStoreRoutines();
  if (name == "auto") {
    return rates.empty() ? supported.front() : rates.front().routine;
  }
  for (const StoreRoutine* routine : supported) {
    if (name == routine->name) return routine;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this CPU has no store routine '", AbslView(name), "'; there are auto, ",
      absl::StrJoin(supported, ", ",
                    [](std::string* out, const StoreRoutine* routine) {
                      out->append(routine->name);
                    })));
}

}  // namespace hugepool
