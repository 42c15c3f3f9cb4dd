// One lease for people.
#ifndef HUGEPOOL_CLIENT_HPCTL_LEASE_PRINT_H_
#define HUGEPOOL_CLIENT_HPCTL_LEASE_PRINT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "hugepool/v1/types.pb.h"

namespace hugepool::hpctl {

// Bytes of all segments, as granted.
uint64_t TotalSize(const v1::Lease& lease);

// `paths`: where this process has the extents, in their order; may be empty.
void PrintLease(const v1::Lease& lease, const std::vector<std::string>& paths,
                std::ostream& out);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_LEASE_PRINT_H_
