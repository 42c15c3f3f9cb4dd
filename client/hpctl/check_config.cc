#include "client/hpctl/check_config.h"

#include "absl/status/status.h"

namespace hugepool::hpctl {

absl::StatusOr<std::string> CheckConfigFile(const std::string& /*path*/) {
  return absl::UnimplementedError(
      "this hpctl cannot check files yet: hugepoold checks its own at start");
}

}  // namespace hugepool::hpctl
