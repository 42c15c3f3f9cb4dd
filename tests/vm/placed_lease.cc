#include "tests/vm/placed_lease.h"

#include <numaif.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/harness/pattern.h"

namespace hugepool::testing {

std::map<uint32_t, uint64_t> PagesByNode(const Lease& lease) {
  std::map<uint32_t, uint64_t> by_node;
  for (size_t i = 0; i < lease.extent_count(); ++i) {
    const hp_extent_info extent = lease.extent(i);
    char* const begin =
        static_cast<char*>(lease.segment(extent.segment).data) + extent.offset;
    // Touches every page: move_pages knows only what this process has mapped.
    EXPECT_EQ(CountNonZeroBytes(begin, extent.bytes), 0u) << "extent " << i;
    std::vector<void*> pages;
    for (uint64_t at = 0; at < extent.bytes; at += extent.page_size) {
      pages.push_back(begin + at);
    }
    std::vector<int> where(pages.size(), -1);
    if (move_pages(0, pages.size(), pages.data(), nullptr, where.data(), 0) !=
        0) {
      ADD_FAILURE() << "move_pages: " << std::strerror(errno);
      return by_node;
    }
    for (size_t page = 0; page < where.size(); ++page) {
      if (where[page] != static_cast<int>(extent.node)) {
        ADD_FAILURE() << "page " << page << " of extent " << i
                      << ": the kernel says node " << where[page]
                      << ", the reply node " << extent.node;
      }
      if (where[page] >= 0) ++by_node[static_cast<uint32_t>(where[page])];
    }
  }
  return by_node;
}

}  // namespace hugepool::testing
