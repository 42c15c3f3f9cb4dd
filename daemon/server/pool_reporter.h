// Tells those who watch, and the log, how the pools do.
#ifndef HUGEPOOL_DAEMON_SERVER_POOL_REPORTER_H_
#define HUGEPOOL_DAEMON_SERVER_POOL_REPORTER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/units.h"
#include "daemon/lease/events.h"
#include "daemon/pool/pool.h"

namespace hugepool::server {

// "pool of 2 MiB pages on node 0 has 96 MiB of 128 MiB: …"
std::string DescribeShortfall(const PoolSnapshot& pool);

// Not thread-safe: the executor's own.
class PoolReporter {
 public:
  // `news` must outlive this.
  explicit PoolReporter(NewsSink* news) : news_(news) {}

  // The state of every pool, and a warning where one became short of its target
  // since the last call, or is not any more.
  void TellState(const std::vector<PoolSnapshot>& pools);

  // Progress of the pools that are being filled: of each at most every
  // kProgressEvery, and only what changed. When to call it again: soon, as long
  // as something is on its way; InfiniteFuture at rest, until something
  // happens.
  absl::Time TellProgress(const std::vector<PoolSnapshot>& pools,
                          absl::Time now);
  static constexpr absl::Duration kProgressEvery = absl::Milliseconds(100);

 private:
  struct Told {
    bool is_short = false;
    PageCount made;  // clean, and of the extent at hand
    absl::Time at = absl::InfinitePast();
  };
  Told& Of(const PoolSnapshot& pool) {
    return told_[{pool.config.node, pool.config.page_size}];
  }

  NewsSink* const news_;
  std::map<std::pair<NodeId, PageSize>, Told> told_;
};

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_POOL_REPORTER_H_
