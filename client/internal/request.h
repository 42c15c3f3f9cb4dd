// hp_request: what the C interface collects before an Acquire.
#ifndef HUGEPOOL_CLIENT_INTERNAL_REQUEST_H_
#define HUGEPOOL_CLIENT_INTERNAL_REQUEST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/hugepool.h"
#include "client/internal/lease_map.h"
#include "hugepool/v1/hugepool.pb.h"

// With nodes as they were given: HP_NODE_LOCAL is resolved at the Acquire.
struct hp_request {
  hugepool::v1::AcquireRequest proto;
  uint32_t flags = 0;
};

namespace hugepool::client {

// `request` as it goes to the daemon, with HP_NODE_LOCAL replaced by what
// LocalNode() says now.
v1::AcquireRequest BuildRequest(const hp_request& request);

MapOptions MapOptionsOf(uint32_t flags);

// A time from the C interface; anything above a year is a year.
absl::Duration FromMilliseconds(uint64_t ms);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_REQUEST_H_
