#include "tests/harness/line.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace hugepool::testing {
namespace {

std::string Escape(const std::string& s) {
  return absl::StrReplaceAll(s, {{"%", "%25"}, {" ", "%20"}, {"\n", "%0a"}});
}

std::string Unescape(const std::string& s) {
  return absl::StrReplaceAll(s, {{"%20", " "}, {"%0a", "\n"}, {"%25", "%"}});
}

}  // namespace

Line Line::Parse(const std::string& text) {
  const std::vector<std::string> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  Line line(words.empty() ? "" : words[0]);
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t eq = words[i].find('=');
    line.values_[words[i].substr(0, eq)] =
        eq == std::string::npos ? "" : Unescape(words[i].substr(eq + 1));
  }
  return line;
}

Line& Line::Set(const std::string& key, const std::string& value) {
  values_[key] = value;
  return *this;
}

Line& Line::Set(const std::string& key, const char* value) {
  return Set(key, std::string(value));
}

Line& Line::Set(const std::string& key, uint64_t value) {
  return Set(key, absl::StrCat(value));
}

std::string Line::Get(const std::string& key,
                      const std::string& otherwise) const {
  const auto it = values_.find(key);
  return it == values_.end() ? otherwise : it->second;
}

uint64_t Line::Number(const std::string& key, uint64_t otherwise) const {
  uint64_t number = 0;
  return absl::SimpleAtoi(Get(key), &number) ? number : otherwise;
}

std::string Line::Text() const {
  std::string text = verb_;
  for (const auto& [key, value] : values_) {
    absl::StrAppend(&text, " ", key, "=", Escape(value));
  }
  return text;
}

std::ostream& operator<<(std::ostream& os, const Line& line) {
  return os << line.Text();
}

}  // namespace hugepool::testing
