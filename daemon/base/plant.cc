#include "daemon/base/plant.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/views.h"

namespace hugepool {

#ifdef HUGEPOOL_PLANTS

namespace {

// Relaxed: set once, before the threads that look start.
std::atomic<Defect> g_planted{Defect::kNone};

constexpr std::pair<std::string_view, Defect> kNames[] = {
    {"none", Defect::kNone},
    {"skip-clear", Defect::kSkipClear},
    {"double-grant", Defect::kDoubleGrant},
    {"lose-page", Defect::kLosePage},
    {"early-clean", Defect::kEarlyClean},
    {"punch-live", Defect::kPunchLive},
    {"stale-ledger", Defect::kStaleLedger},
};

}  // namespace

absl::Status PlantDefect(std::string_view name) {
  std::string known;
  for (const auto& [n, defect] : kNames) {
    if (n == name) {
      g_planted.store(defect, std::memory_order_relaxed);
      return absl::OkStatus();
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", AbslView(n));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", AbslView(name),
                   "' is not a defect that can be planted; there are ", known));
}

bool Planted(Defect defect) {
  return g_planted.load(std::memory_order_relaxed) == defect;
}

#else

absl::Status PlantDefect(std::string_view name) {
  if (name == "none") return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot plant '", AbslView(name),
      "': this build has no planted defects; build with --config=plants"));
}

bool Planted(Defect) { return false; }

#endif

}  // namespace hugepool
