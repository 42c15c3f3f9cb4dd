#include "client/hpctl/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {

Table::Table(std::vector<std::string> heading) : heading_(std::move(heading)) {}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(heading_.size());
  for (std::string& cell : cells) cell = TextCell(cell);
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out) const {
  const size_t columns = heading_.size();
  std::vector<size_t> width(columns);
  std::vector<bool> right(columns, !rows_.empty());
  for (size_t c = 0; c < columns; ++c) {
    width[c] = heading_[c].size();
    bool numbers = false;
    for (const auto& row : rows_) {
      width[c] = std::max(width[c], row[c].size());
      const char first = row[c][0];
      numbers =
          numbers || absl::ascii_isdigit(static_cast<unsigned char>(first));
      right[c] =
          right[c] && (absl::ascii_isdigit(static_cast<unsigned char>(first)) ||
                       row[c] == "-");
    }
    right[c] = right[c] && numbers;
  }
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string pad(width[c] - row[c].size(), ' ');
      absl::StrAppend(&line, c == 0 ? "" : "  ", right[c] ? pad : "", row[c],
                      right[c] ? "" : pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  };
  print(heading_);
  for (const auto& row : rows_) print(row);
}

std::string SizeCell(uint64_t bytes) {
  return bytes == 0 ? "-" : ToString(Bytes(bytes));
}

std::string AgeCell(absl::Duration age) {
  const int64_t s = std::max<int64_t>(0, absl::ToInt64Seconds(age));
  if (s < 60) return absl::StrCat(s, "s");
  if (s < 3600) return absl::StrCat(s / 60, "m", s % 60, "s");
  if (s < 86400) return absl::StrCat(s / 3600, "h", s % 3600 / 60, "m");
  return absl::StrCat(s / 86400, "d", s % 86400 / 3600, "h");
}

std::string TextCell(const std::string& text) {
  if (text.empty()) return "-";
  std::string out = text;
  for (char& c : out) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) c = '?';
  }
  return out;
}

absl::Duration FromProto(const google::protobuf::Duration& d) {
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

absl::Time FromProto(const google::protobuf::Timestamp& t) {
  return absl::FromUnixSeconds(t.seconds()) + absl::Nanoseconds(t.nanos());
}

}  // namespace hugepool::hpctl
