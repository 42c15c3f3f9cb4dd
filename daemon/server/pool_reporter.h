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

 private:
  using Key = std::pair<NodeId, PageSize>;
  NewsSink* const news_;
  std::map<Key, bool> short_;
};

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_POOL_REPORTER_H_
