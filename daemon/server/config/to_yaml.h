// From a Config to text.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_TO_YAML_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_TO_YAML_H_

#include <string>

#include "daemon/server/config/config.h"

namespace hugepool::server {

// The configuration in force with every key, defaults included. For a Config
// from ParseConfig, LoadConfig or DefaultConfig, ParseConfig of the result is
// equal to it.
std::string ToYaml(const Config& config);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_TO_YAML_H_
