// The keys of the configuration: one table per struct, which names each key
// once and says how it is read. Internal.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_FIELDS_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_FIELDS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/server/config/config.h"
#include "daemon/server/config/config_errors.h"
#include "daemon/server/config/value.h"

namespace hugepool::server {

// A configuration while its files are read one after the other.
struct Draft {
  Config config;
  // Where each key outside lists was last written, by its full name. Its value
  // may have been wrong.
  std::map<std::string, Origin, std::less<>> written;
  // Domains (by index) that say themselves how their pages are used again.
  std::vector<bool> domain_says_reuse;

  bool Wrote(std::string_view key) const { return written.contains(key); }
  // Where `key` was written, or "built-in defaults".
  Origin Where(std::string_view key) const;
};

// Reads a document into the draft: a scalar replaces what an earlier file said,
// the items of a list come after those of earlier files. Items with errors are
// left out.
void ReadDocument(const Value& root, Draft* draft, ConfigErrors* errors);

// The full names of all keys, such as "pools[].page_size".
std::vector<std::string> KnownKeys();

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_FIELDS_H_
