// The lines that a test and its client processes exchange: a verb and
// key=value words, e.g. "acquire as=a bytes=4194304".
#ifndef HUGEPOOL_TESTS_HARNESS_LINE_H_
#define HUGEPOOL_TESTS_HARNESS_LINE_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>

namespace hugepool::testing {

// A value; blanks, line ends and % in values are escaped in the text.
class Line {
 public:
  Line() = default;
  explicit Line(std::string verb) : verb_(std::move(verb)) {}
  // Words without "=" are keys with an empty value.
  static Line Parse(const std::string& text);

  Line& Set(const std::string& key, const std::string& value);
  Line& Set(const std::string& key, const char* value);
  Line& Set(const std::string& key, uint64_t value);

  const std::string& verb() const { return verb_; }
  bool ok() const { return verb_ == "ok"; }
  bool Has(const std::string& key) const { return values_.count(key) != 0; }
  std::string Get(const std::string& key,
                  const std::string& otherwise = "") const;
  // `otherwise` where the key is missing or no number.
  uint64_t Number(const std::string& key, uint64_t otherwise = 0) const;
  // Without the line's end.
  std::string Text() const;

 private:
  std::string verb_;
  std::map<std::string, std::string> values_;
};

std::ostream& operator<<(std::ostream& os, const Line& line);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_LINE_H_
