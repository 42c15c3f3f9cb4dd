#include "client/hpctl/check_config.h"

#include "daemon/base/errno_status.h"
#include "daemon/server/config/config.h"
#include "daemon/server/config/load.h"
#include "daemon/server/config/to_yaml.h"

namespace hugepool::hpctl {

absl::StatusOr<std::string> CheckConfigFile(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const server::Config config, server::LoadConfig(path));
  return server::ToYaml(config);
}

}  // namespace hugepool::hpctl
