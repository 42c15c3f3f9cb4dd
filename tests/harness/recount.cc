#include "tests/harness/recount.h"

#include <poll.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/sys/sysfs.h"
#include "tests/harness/raw_client.h"

namespace hugepool::testing {
namespace {

uint64_t KernelNumber(const v1::PoolStatus& pool, const char* name) {
  const auto number = sys::ReadNumber(absl::StrCat(
      "/sys/devices/system/node/node", pool.node(), "/hugepages/hugepages-",
      pool.page_size() >> 10, "kB/", name));
  return number.ok() ? *number : UINT64_MAX;
}

std::string PoolWrong(const v1::PoolStatus& pool, bool all_clean) {
  const std::string name =
      absl::StrCat("node ", pool.node(), " ", pool.page_size() >> 10, "K: ");
  const uint64_t at_rest =
      pool.clean_bytes() + (all_clean ? 0 : pool.held_bytes());
  if (at_rest != BytesInBooks(pool) || at_rest != pool.target_bytes()) {
    return absl::StrCat(name, "not at rest: ", pool.ShortDebugString());
  }
  const std::string difference = DifferenceNow(pool);
  return difference.empty() ? "" : name + difference;
}

std::string LeasesLeft(DaemonProcess* daemon) {
  const auto leases = ListAllLeases(daemon->dir());
  if (!leases.ok()) return "leases are left: " + leases.status().ToString();
  std::string text = absl::StrCat(leases->size(), " leases are left:");
  for (const v1::Lease& lease : *leases) {
    absl::StrAppend(&text, "\n  ", lease.ShortDebugString());
  }
  return text;
}

std::string Wrong(DaemonProcess* daemon, bool all_clean) {
  const auto status = daemon->GetStatus();
  if (!status.ok()) {
    return absl::StrCat(status.status().ToString(), "\n", daemon->Log());
  }
  if (all_clean && status->leases() != 0) return LeasesLeft(daemon);
  for (const v1::PoolStatus& pool : status->pools()) {
    std::string wrong = PoolWrong(pool, all_clean);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string WaitUntilRight(DaemonProcess* daemon, bool all_clean,
                           absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    std::string wrong = Wrong(daemon, all_clean);
    if (wrong.empty() || absl::Now() > deadline) return wrong;
    poll(nullptr, 0, 5);
  }
}

}  // namespace

uint64_t BytesInBooks(const v1::PoolStatus& pool) {
  return pool.clean_bytes() + pool.populating_bytes() + pool.granted_bytes() +
         pool.held_bytes() + pool.returning_bytes() + pool.dirty_bytes() +
         pool.retiring_bytes();
}

std::string DifferenceNow(const v1::PoolStatus& pool) {
  const uint64_t total = KernelNumber(pool, "nr_hugepages");
  const uint64_t free = KernelNumber(pool, "free_hugepages");
  const uint64_t used = (total - free) * pool.page_size();
  if (used == BytesInBooks(pool)) return "";
  return absl::StrCat("the kernel has ", used, " bytes in use, the books ",
                      BytesInBooks(pool), ": ", pool.ShortDebugString());
}

std::string WaitForBalance(DaemonProcess* daemon, absl::Duration timeout) {
  return WaitUntilRight(daemon, false, timeout);
}

std::string WaitForAllClean(DaemonProcess* daemon, absl::Duration timeout) {
  return WaitUntilRight(daemon, true, timeout);
}

}  // namespace hugepool::testing
