// Checking a configuration file without a daemon.
#ifndef HUGEPOOL_CLIENT_HPCTL_CHECK_CONFIG_H_
#define HUGEPOOL_CLIENT_HPCTL_CHECK_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"

namespace hugepool::hpctl {

// Reads the file at `path` and its conf.d as the daemon would, and returns what
// would be in force, as YAML. INVALID_ARGUMENT with one error a line;
// NOT_FOUND where there is no such file.
absl::StatusOr<std::string> CheckConfigFile(const std::string& path);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_CHECK_CONFIG_H_
