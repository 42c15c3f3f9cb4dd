#include "daemon/server/pool_reporter.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"

namespace hugepool::server {

std::string DescribeShortfall(const PoolSnapshot& pool) {
  const PageSize size = pool.config.page_size;
  return absl::StrCat("pool of ", ToString(size), " pages on node ",
                      pool.config.node.value(), " has ",
                      ToString(size.Of(pool.charged)), " of ",
                      ToString(size.Of(pool.config.target)), ": ",
                      pool.shortfall);
}

void PoolReporter::TellState(const std::vector<PoolSnapshot>& pools) {
  for (const PoolSnapshot& pool : pools) {
    news_->Publish(PoolChanged{pool});
    const bool is_short = !pool.shortfall.empty();
    bool& was_short = short_[{pool.config.node, pool.config.page_size}];
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

}  // namespace hugepool::server
