#include "daemon/server/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "daemon/base/errno_status.h"
#include "daemon/base/version.h"
#include "daemon/server/config/load.h"

namespace hugepool::server {

std::variant<Options, int> ParseCommandLine(int argc, char** argv) {
  Options options;
  CLI::App app(
      "hugepoold keeps huge pages zeroed and ready and lends them to programs.",
      "hugepoold");
  app.set_version_flag("--version", std::string("hugepoold ") + kVersion);
  app.add_option("--config", options.config_path,
                 std::string("configuration file (default: ") +
                     kDefaultConfig + " if there is one)");
  app.add_option("--run-dir", options.run_dir,
                 "directory of the sockets; overrides run_dir");
  app.add_option("--log-level", options.log_level,
                 "error, warning, info or debug; overrides log_level");
  app.add_option("--plant", options.plant,
                 "test builds only: plant a defect that tests must find");
  app.add_flag("--check", options.check_only,
               "check the configuration and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return options;
}

absl::StatusOr<Config> ConfigFor(const Options& options) {
  Config config = DefaultConfig();
  std::string path = options.config_path;
  if (path.empty() && options.run_dir.empty() &&
      access(kDefaultConfig, F_OK) == 0) {
    path = kDefaultConfig;
  }
  // What the command line overrides is written before it is read, so that
  // everything that follows from it (the admin directory) follows.
  if (!path.empty()) {
    HP_ASSIGN_OR_RETURN(config, LoadConfig(path));
  }
  if (!options.run_dir.empty()) {
    const std::string before = config.run_dir;
    config.run_dir = options.run_dir;
    if (config.admin.dir == before) config.admin.dir = options.run_dir;
    for (ListenerConfig& listener : config.listeners) {
      if (listener.dir == before) listener.dir = options.run_dir;
    }
  }
  if (!options.log_level.empty()) {
    HP_ASSIGN_OR_RETURN(
        Config level,
        ParseConfig("log_level: " + options.log_level + "\n", "--log-level"));
    config.log_level = level.log_level;
  }
  return config;
}

}  // namespace hugepool::server
