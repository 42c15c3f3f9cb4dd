#include "daemon/server/config/config_errors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {

std::string ConfigError::ToString() const {
  std::string text = at.file;
  if (at.line > 0) Append(&text, ":", at.line);
  Append(&text, ": ");
  if (!at.key.empty()) Append(&text, at.key, ": ");
  return Cat(text, message);
}

void ConfigErrors::Add(Origin at, std::string_view message) {
  errors_.push_back({std::move(at), std::string(message)});
}

absl::Status ConfigErrors::ToStatus() const {
  if (errors_.empty()) return absl::OkStatus();
  std::map<std::string_view, size_t> rank;
  std::vector<const ConfigError*> sorted;
  for (const ConfigError& e : errors_) {
    rank.emplace(e.at.file, rank.size());
    sorted.push_back(&e);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const ConfigError* a, const ConfigError* b) {
                     return std::pair(rank[a->at.file], a->at.line) <
                            std::pair(rank[b->at.file], b->at.line);
                   });
  const size_t told = std::min(sorted.size(), kMaxTold);
  std::vector<std::string> lines;
  for (size_t i = 0; i < told; ++i) lines.push_back(sorted[i]->ToString());
  if (told < sorted.size()) {
    lines.push_back(Cat("and ", sorted.size() - told, " more errors"));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace hugepool::server
