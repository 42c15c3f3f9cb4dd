// Where a lease's pages really are.
#ifndef HUGEPOOL_TESTS_VM_PLACED_LEASE_H_
#define HUGEPOOL_TESTS_VM_PLACED_LEASE_H_

#include <cstdint>
#include <map>

#include "client/hugepool.hpp"

namespace hugepool::testing {

// Pages by node, as move_pages(2) says of each page in this process's own
// mapping of the lease. Fails the test where a page is not on the node that the
// reply names for its extent, or a byte is not zero; reads every byte.
std::map<uint32_t, uint64_t> PagesByNode(const Lease& lease);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_VM_PLACED_LEASE_H_
