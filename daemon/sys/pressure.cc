#include "daemon/sys/pressure.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/sys/sysfs.h"

namespace hugepool::sys {
namespace {

// Where the hierarchy is mounted, and which of its groups stands there: another
// than the root in a container.
struct Mount {
  std::string at;
  std::string group;
};

// A line of mountinfo: "ID PARENT MAJOR:MINOR GROUP AT OPTIONS ... - cgroup2
// ...".
std::optional<Mount> FindMount(absl::string_view mountinfo) {
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (!absl::StartsWith(parts.second, "cgroup2 ")) continue;
    const std::vector<std::string> words = absl::StrSplit(parts.first, ' ');
    if (words.size() < 5) continue;
    return Mount{words[4], words[3]};
  }
  return std::nullopt;
}

// The line "0::/system.slice/hugepool.service" of /proc/self/cgroup.
std::optional<std::string> OwnGroup(absl::string_view cgroup) {
  for (absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) return std::string(line);
  }
  return std::nullopt;
}

// The groups from the mounted one down to our own; nullopt where ours is not
// below it, so that nothing is known of it.
std::optional<std::vector<std::string>> Way(const Mount& mount,
                                            absl::string_view own) {
  std::vector<std::string> top =
      absl::StrSplit(mount.group, '/', absl::SkipEmpty());
  std::vector<std::string> way = absl::StrSplit(own, '/', absl::SkipEmpty());
  if (way.size() < top.size() ||
      !std::equal(top.begin(), top.end(), way.begin()) ||
      std::count(way.begin(), way.end(), "..") > 0) {
    return std::nullopt;
  }
  way.erase(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(top.size()));
  return way;
}

void Raise(std::optional<double>* most, std::optional<double> value) {
  if (value.has_value()) most->emplace(std::max(most->value_or(0), *value));
}

std::optional<double> Of(const std::string& group) {
  std::optional<double> most;
  for (const char* file : {"/cpu.pressure", "/memory.pressure"}) {
    const auto text = ReadSmallFile(group + file);
    if (text.ok()) Raise(&most, SomeAvg10(*text));
  }
  return most;
}

}  // namespace

std::optional<double> SomeAvg10(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "some avg10=")) continue;
    double value = 0;
    const absl::string_view number = line.substr(0, line.find(' '));
    // Written so that NaN is refused too.
    if (!absl::SimpleAtod(number, &value) || !(value >= 0 && value <= 100)) {
      return std::nullopt;
    }
    return value;
  }
  return std::nullopt;
}

std::optional<double> CgroupPressure::Read() const {
  const auto mountinfo = ReadSmallFile(root_ + "/proc/self/mountinfo");
  const auto cgroup = ReadSmallFile(root_ + "/proc/self/cgroup");
  if (!mountinfo.ok() || !cgroup.ok()) return std::nullopt;
  const std::optional<Mount> mount = FindMount(*mountinfo);
  const std::optional<std::string> own = OwnGroup(*cgroup);
  if (!mount.has_value() || !own.has_value()) return std::nullopt;
  std::optional<std::vector<std::string>> way = Way(*mount, *own);
  if (!way.has_value()) return std::nullopt;
  way->emplace_back();  // of our own group every child
  std::optional<double> most;
  std::string group = absl::StrCat(root_, mount->at);
  for (const std::string& ours : *way) {
    for (const std::string& name : ListDirectory(group)) {
      // Plain files have no such file below them.
      if (name != ours) Raise(&most, Of(absl::StrCat(group, "/", name)));
    }
    absl::StrAppend(&group, "/", ours);
  }
  return most;
}

}  // namespace hugepool::sys
