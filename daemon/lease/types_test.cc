#include "daemon/lease/types.h"

#include <gtest/gtest.h>

namespace hugepool {
namespace {

TEST(ToWire, HasAFixedForm) {
  EXPECT_EQ(ToWire(LeaseId(1)), "lease-0000000000000001");
  EXPECT_EQ(ToWire(LeaseId(0xfedcba9876543210)), "lease-fedcba9876543210");
  EXPECT_EQ(ToWire(ExtentId(0xab00000001)), "extent-000000ab00000001");
}

TEST(LeaseIdFromWire, ReadsWhatToWireWrote) {
  for (uint64_t v : {uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    EXPECT_EQ(LeaseIdFromWire(ToWire(LeaseId(v))), LeaseId(v));
  }
}

TEST(LeaseIdFromWire, AnythingElseIsNoId) {
  for (const char* bad :
       {"", "lease-", "lease-1", "lease-000000000000000g",
        "lease-00000000000000001", "extent-0000000000000001",
        "LEASE-0000000000000001", " lease-0000000000000001",
        "lease-0x00000000000001", "lease--000000000000001",
        "lease-               1", "lease-0000000000000000"}) {
    EXPECT_FALSE(LeaseIdFromWire(bad).valid()) << bad;
  }
}

TEST(Lease, SizeIsThatOfWhatIsNotBackYet) {
  Lease lease;
  EXPECT_EQ(lease.size(), Bytes(0));
  lease.extents.resize(2);
  lease.extents[0].size = MiB(2);
  lease.extents[1].size = MiB(8);
  EXPECT_EQ(lease.size(), MiB(10));
}

}  // namespace
}  // namespace hugepool
