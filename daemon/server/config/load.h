// From text to a validated Config.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_LOAD_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_LOAD_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/base/units.h"
#include "daemon/server/config/config.h"

namespace hugepool::server {

// A larger file is refused: none needs to be, and YAML can be made dear.
inline constexpr Bytes kMaxConfigFile = MiB(1);

// Reads the file at `path`, then *.yaml of the folder conf.d beside it in the
// order of their names (hidden files and a missing folder are no error). A
// scalar replaces what an earlier file said; items of listeners, pools and
// domains come after those of earlier files.
//
// INVALID_ARGUMENT with every error, one a line, each
// "file:line: key: what is wrong, what to write". NOT_FOUND where `path` is
// missing; another code where a file cannot be read.
absl::StatusOr<Config> LoadConfig(const std::string& path);

// The same for one text; `source_name` stands for the file's name in errors.
// Never throws.
absl::StatusOr<Config> ParseConfig(std::string_view text,
                                   std::string_view source_name);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_LOAD_H_
