#include "daemon/sys/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/views.h"

namespace hugepool::sys {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoToStatus(errno, "open(" + path + ")");
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "read(" + path + ")");
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  absl::StripTrailingAsciiWhitespace(&text);
  return text;
}

absl::StatusOr<uint64_t> ReadNumber(const std::string& path) {
  auto text = ReadSmallFile(path);
  if (!text.ok()) return text.status();
  uint64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number)) {
    return absl::DataLossError(
        absl::StrCat(path, ": '", *text, "' is not a number"));
  }
  return number;
}

absl::Status WriteSmallFile(const std::string& path, std::string_view text) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!fd.valid()) return ErrnoToStatus(errno, "open(" + path + ")");
  if (write(fd.get(), text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    return ErrnoToStatus(errno, "write(" + path + ")");
  }
  return absl::OkStatus();
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()),
                                                closedir);
  if (dir == nullptr) return names;
  // Safe: no other thread has this stream.
  while (const dirent* entry =
             readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<int>> ParseList(std::string_view text) {
  constexpr int kLimit = 1 << 16;  // no machine has more nodes or CPUs
  std::vector<int> numbers;
  const absl::string_view list = absl::StripAsciiWhitespace(AbslView(text));
  if (list.empty()) return numbers;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (!absl::SimpleAtoi(ends.first, &first) ||
        !absl::SimpleAtoi(ends.second.empty() ? ends.first : ends.second,
                          &last) ||
        first < 0 || last < first || last >= kLimit) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", AbslView(text), "' is not a list of numbers"));
    }
    for (int n = first; n <= last; ++n) numbers.push_back(n);
  }
  return numbers;
}

absl::StatusOr<std::string> FindField(std::string_view text,
                                      std::string_view key) {
  const std::string field = absl::StrCat(AbslView(key), ":");
  for (const absl::string_view line : absl::StrSplit(AbslView(text), '\n')) {
    const size_t at = line.find(field);
    if (at == absl::string_view::npos || (at > 0 && line[at - 1] != ' ')) {
      continue;
    }
    return std::string(
        absl::StripAsciiWhitespace(line.substr(at + field.size())));
  }
  return absl::NotFoundError(absl::StrCat("no line '", field, "'"));
}

}  // namespace hugepool::sys
