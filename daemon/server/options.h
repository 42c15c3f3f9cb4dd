// The command line of hugepoold.
#ifndef HUGEPOOL_DAEMON_SERVER_OPTIONS_H_
#define HUGEPOOL_DAEMON_SERVER_OPTIONS_H_

#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "daemon/server/config/config.h"

namespace hugepool::server {

inline constexpr char kDefaultConfig[] = "/etc/hugepool/hugepoold.yaml";

struct Options {
  std::string config_path;  // empty: kDefaultConfig if it exists, else built-in
  std::string run_dir;      // overrides the configuration; with it goes the
                            // listener of the built-in configuration
  std::string log_level;    // overrides the configuration
  std::string plant;        // test builds: the defect to plant
  bool check_only = false;  // read the configuration, say what is wrong, exit
};

// The options, or the exit code of a command line that is answered at once
// (--help, --version, usage errors: 2).
std::variant<Options, int> ParseCommandLine(int argc, char** argv);

// The configuration that the options ask for. INVALID_ARGUMENT with every error
// and its line.
absl::StatusOr<Config> ConfigFor(const Options& options);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_OPTIONS_H_
