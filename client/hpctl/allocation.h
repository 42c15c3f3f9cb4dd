// The options that say what to allocate: of `acquire` and of `run`.
#ifndef HUGEPOOL_CLIENT_HPCTL_ALLOCATION_H_
#define HUGEPOOL_CLIENT_HPCTL_ALLOCATION_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "hugepool/v1/hugepool.pb.h"

namespace hugepool::hpctl {

// As written on the command line.
struct AllocationFlags {
  std::vector<std::string> sizes;
  std::string page_sizes;
  std::string bind;
  std::string prefer;
  std::string interleave;
  bool single_fd = false;
  std::string wait;
  std::string hot;
  std::string copy_from;  // LEASE[@OFFSET]
  std::string lifetime;
  std::string name;
  std::string time_to_live;
  bool seal_shrink = false;
  bool reopenable = false;
  bool is_private = false;
  std::vector<std::string> labels;
};

// Adds the options to `command`; `flags` must outlive its parsing.
void AddAllocationFlags(CLI::App* command, AllocationFlags* flags);

// The request they mean. Without --lifetime it is NAMED where there is a name,
// else `default_lifetime`. INVALID_ARGUMENT names the option.
absl::StatusOr<v1::AcquireRequest> BuildAcquireRequest(
    const AllocationFlags& flags, v1::Lifetime default_lifetime);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_ALLOCATION_H_
