// Releases of parts of a lease, for FakeDaemon.
#ifndef HUGEPOOL_CLIENT_TESTING_FAKE_RANGES_H_
#define HUGEPOOL_CLIENT_TESTING_FAKE_RANGES_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "grpcpp/support/status.h"
#include "hugepool/v1/hugepool.pb.h"

namespace hugepool::testing {

// The released pages of one lease, by segment and offset. Not thread-safe.
class FakeRanges {
 public:
  // Does what the daemon does with the request's ranges: all or nothing. The
  // pages become holes in `fds`, the lease's extents, at once.
  grpc::Status Release(const v1::Lease& lease, const std::vector<UniqueFd>& fds,
                       const v1::ReleaseRequest& request,
                       v1::ReleaseResponse* response);

  bool Has(uint32_t segment, uint64_t offset) const {
    return pages_.count({segment, offset}) != 0;
  }

 private:
  std::set<std::pair<uint32_t, uint64_t>> pages_;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_FAKE_RANGES_H_
