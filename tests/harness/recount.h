// The daemon's books against a recount.
#ifndef HUGEPOOL_TESTS_HARNESS_RECOUNT_H_
#define HUGEPOOL_TESTS_HARNESS_RECOUNT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "hugepool/v1/hugepool.pb.h"
#include "tests/harness/daemon_process.h"

namespace hugepool::testing {

// Bytes of a pool in all states that hold memory.
uint64_t BytesInBooks(const v1::PoolStatus& pool);

// What is wrong between the pool's books and the kernel's counters now (sysfs
// read by this process); empty: nothing. True only while nothing moves and
// nobody else has pages of the size.
std::string DifferenceNow(const v1::PoolStatus& pool);

// Waits until every pool has nothing but clean and held memory, is at its
// target, and equals the kernel's counters. What was still wrong at the
// deadline, else empty.
std::string WaitForBalance(DaemonProcess* daemon, absl::Duration timeout);
// The same, with all memory clean: every lease is over and every page is back.
std::string WaitForAllClean(DaemonProcess* daemon,
                            absl::Duration timeout = absl::Seconds(20));

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_RECOUNT_H_
