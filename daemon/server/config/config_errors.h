// All that is wrong with a configuration, told at once.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_CONFIG_ERRORS_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_CONFIG_ERRORS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/server/config/config.h"

namespace hugepool::server {

struct ConfigError {
  Origin at;            // file, line and key
  std::string message;  // what is wrong, and what to write

  // "file:line: key: message", without what is unknown.
  std::string ToString() const;
};

// Collects errors, so that an operator sees all of them in one go. Not
// thread-safe.
class ConfigErrors {
 public:
  // More than these are counted and not told.
  static constexpr size_t kMaxTold = 100;

  void Add(Origin at, std::string_view message);

  bool empty() const { return errors_.empty(); }
  size_t size() const { return errors_.size(); }

  // One error a line: by file in the order in which files first had one, then
  // by line. INVALID_ARGUMENT; OK where there is none.
  absl::Status ToStatus() const;

 private:
  std::vector<ConfigError> errors_;
};

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_CONFIG_ERRORS_H_
