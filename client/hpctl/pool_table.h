// The table of pools, which `status` and `pool list` share.
#ifndef HUGEPOOL_CLIENT_HPCTL_POOL_TABLE_H_
#define HUGEPOOL_CLIENT_HPCTL_POOL_TABLE_H_

#include <cstdint>
#include <ostream>

#include "google/protobuf/repeated_ptr_field.h"
#include "hugepool/v1/types.pb.h"

namespace hugepool::hpctl {

// All that the pool has, in whatever state.
uint64_t OwnedBytes(const v1::PoolStatus& pool);

// One line for each pool, then what is short of its target and why. `wide`
// adds use over time and the kernel's counters.
void PrintPools(const google::protobuf::RepeatedPtrField<v1::PoolStatus>& pools,
                bool wide, std::ostream& out);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_POOL_TABLE_H_
