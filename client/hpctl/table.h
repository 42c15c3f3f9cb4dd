// Text in columns, for people.
#ifndef HUGEPOOL_CLIENT_HPCTL_TABLE_H_
#define HUGEPOOL_CLIENT_HPCTL_TABLE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace hugepool::hpctl {

// Rows under a heading, each column as wide as its widest cell. Columns whose
// cells begin with a digit are numbers and stand to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> heading);
  // As many cells as the heading has. Control characters become '?': names
  // come from other users, and a terminal obeys.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  void Print(std::ostream& out) const;

 private:
  std::vector<std::string> heading_;
  std::vector<std::vector<std::string>> rows_;
};

// "1 GiB"; "-" for 0.
std::string SizeCell(uint64_t bytes);
// The two largest units: "3h12m", "5d4h", "42s", "0s".
std::string AgeCell(absl::Duration age);
// `text` without control characters; "-" where it is empty.
std::string TextCell(const std::string& text);

absl::Duration FromProto(const google::protobuf::Duration& d);
absl::Time FromProto(const google::protobuf::Timestamp& t);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_TABLE_H_
