#include "daemon/server/pool_reporter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"

namespace hugepool::server {
namespace {

// Something is on its way to being clean, or to being built again.
bool IsFilling(const PoolSnapshot& pool) {
  return pool.in(ExtentState::kPopulating) + pool.in(ExtentState::kDirty) +
             pool.in(ExtentState::kClearing) + pool.in(ExtentState::kRetiring) >
         PageCount(0);
}

}  // namespace

std::string DescribeShortfall(const PoolSnapshot& pool) {
  const PageSize size = pool.config.page_size;
  return absl::StrCat(
      "pool of ", ToString(size), " pages on node ", pool.config.node.value(),
      " has ", ToString(size.Of(pool.charged)), " of ",
      ToString(size.Of(pool.config.target)), ": ", pool.shortfall);
}

void PoolReporter::TellState(const std::vector<PoolSnapshot>& pools) {
  for (const PoolSnapshot& pool : pools) {
    news_->Publish(PoolChanged{pool});
    const bool is_short = !pool.shortfall.empty();
    bool& was_short = Of(pool).is_short;
    if (is_short == was_short) continue;
    was_short = is_short;
    if (is_short) {
      const std::string text = DescribeShortfall(pool);
      Log(LogLevel::kWarning, text);
      news_->Publish(Warning{text});
    } else {
      Log(LogLevel::kInfo,
          absl::StrCat("pool of ", ToString(pool.config.page_size),
                       " pages on node ", pool.config.node.value(),
                       " is short no more"));
    }
  }
}

absl::Time PoolReporter::TellProgress(const std::vector<PoolSnapshot>& pools,
                                      absl::Time now) {
  absl::Time again = absl::InfiniteFuture();
  for (const PoolSnapshot& pool : pools) {
    Told& told = Of(pool);
    const PageCount made = pool.in(ExtentState::kClean) + pool.made;
    const bool filling = IsFilling(pool);
    if (made == told.made || (made < told.made && !filling)) {
      told.made = made;  // somebody has taken of it
      if (filling) again = std::min(again, now + kProgressEvery);
      continue;
    }
    if (now < told.at + kProgressEvery) {
      again = std::min(again, told.at + kProgressEvery);
      continue;
    }
    const PageSize size = pool.config.page_size;
    news_->Publish(FillProgress{pool.config.node, size, size.Of(made),
                                size.Of(pool.config.target)});
    told.made = made;
    told.at = now;
    again = std::min(again, now + kProgressEvery);
  }
  return again;
}

}  // namespace hugepool::server
