// Reading and writing the small text files of /sys and /proc.
#ifndef HUGEPOOL_DAEMON_SYS_SYSFS_H_
#define HUGEPOOL_DAEMON_SYS_SYSFS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hugepool::sys {

// All of a small file, without the white space at its end. NOT_FOUND and other
// codes as of ErrnoToStatus, with the path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);
// The file's one number. DATA_LOSS where it is none that fits.
absl::StatusOr<uint64_t> ReadNumber(const std::string& path);
// Writes in one write(2), as sysfs wants it. EROFS, EACCES, ... are the
// caller's to judge; ErrnoOf() has them.
absl::Status WriteSmallFile(const std::string& path, std::string_view text);

// The names in a directory, sorted; empty where it cannot be read.
std::vector<std::string> ListDirectory(const std::string& path);

// "0-2,5" -> 0 1 2 5. An empty list is empty. INVALID_ARGUMENT for other text.
absl::StatusOr<std::vector<int>> ParseList(std::string_view text);

// The value after "key:" at the start of a line, as in /proc/self/status, or
// after "... key:" as in a node's meminfo. NOT_FOUND without such a line.
absl::StatusOr<std::string> FindField(std::string_view text,
                                      std::string_view key);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_SYSFS_H_
