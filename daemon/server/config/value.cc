#include "daemon/server/config/value.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {
namespace {

// What a message quotes of somebody's text.
std::string Quoted(std::string_view text) {
  constexpr size_t kMax = 60;
  std::string shown;
  for (const char c : text.substr(0, kMax)) {
    shown += absl::ascii_iscntrl(c) ? '?' : c;
  }
  return Cat("'", shown, text.size() > kMax ? "..." : "", "'");
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_iscntrl(c); });
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view word,
                         std::span<const std::string_view> known) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  std::string plain = absl::AsciiStrToLower(AbslView(word));
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, plain.size() / 3) + 1;
  for (const std::string_view name : known) {
    const size_t distance = EditDistance(plain, name);
    // Nothing of the word would be left.
    if (distance >= name.size()) continue;
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::optional<std::string> Value::text() const {
  if (!node_.IsScalar()) return std::nullopt;
  return node_.Scalar();
}

std::string Value::Found() const {
  if (node_.IsScalar()) return Quoted(node_.Scalar());
  if (node_.IsSequence()) return "a list";
  if (node_.IsMap()) return "a map";
  return "no value";
}

std::optional<std::string> Value::AsText(std::string_view hint) const {
  if (!node_.IsScalar()) {
    Fail(Cat(Found(), " where a word is needed, write ", hint));
    return std::nullopt;
  }
  if (HasControl(node_.Scalar())) {
    Fail(Cat(Found(), " contains a control character, write ", hint));
    return std::nullopt;
  }
  return node_.Scalar();
}

std::optional<uint32_t> Value::AsCount(uint32_t min, uint32_t max) const {
  uint32_t n = 0;
  if (!node_.IsScalar() || !absl::SimpleAtoi(node_.Scalar(), &n) || n < min ||
      n > max) {
    Fail(Cat(Found(), " is not such a number, write a whole number ", "from ",
             min, " to ", max));
    return std::nullopt;
  }
  return n;
}

std::optional<bool> Value::AsBool() const {
  const std::string word = absl::AsciiStrToLower(text().value_or(""));
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  Fail(Cat(Found(), " is neither, write true or false"));
  return std::nullopt;
}

std::optional<Bytes> Value::AsBytes(std::string_view suffix) const {
  if (!node_.IsScalar()) {
    Fail(Cat(Found(),
             " where a size is needed, write one such as "
             "512MiB or 64GiB"));
    return std::nullopt;
  }
  // Checked here for a short message: ParseBytes quotes the whole text.
  if (node_.Scalar().size() > 40 || HasControl(node_.Scalar())) {
    Fail(Cat(Found(),
             " is not a size, write one such as 512MiB or "
             "64GiB"));
    return std::nullopt;
  }
  absl::StatusOr<Bytes> bytes =
      ParseBytes(StdView(absl::StripSuffix(node_.Scalar(), AbslView(suffix))));
  if (!bytes.ok()) {
    Fail(StdView(bytes.status().message()));
    return std::nullopt;
  }
  return *bytes;
}

std::optional<Percent> Value::AsPercent() const {
  const std::string word = text().value_or("");
  absl::string_view digits = word;
  uint32_t n = 0;
  if (!absl::ConsumeSuffix(&digits, "%") || !absl::SimpleAtoi(digits, &n) ||
      n < 1 || n > 100) {
    Fail(Cat(Found(), " is not a share, write 1% to 100%"));
    return std::nullopt;
  }
  return Percent{n};
}

std::optional<absl::Duration> Value::AsDuration(absl::Duration min,
                                                absl::Duration max) const {
  absl::Duration d;
  if (!absl::ParseDuration(text().value_or(""), &d)) {
    Fail(Cat(Found(),
             " is not a duration, write one with its unit, "
             "such as 100ms, 5s or 2m"));
    return std::nullopt;
  }
  if (d < min || d > max) {
    Fail(Cat(Found(), " is out of range, write ", absl::FormatDuration(min),
             " to ", absl::FormatDuration(max)));
    return std::nullopt;
  }
  return d;
}

std::optional<PageSize> Value::AsPageSize() const {
  const std::optional<Bytes> bytes = AsBytes();
  if (!bytes.has_value()) return std::nullopt;
  const std::optional<PageSize> size = PageSize::FromBytes(*bytes);
  if (!size.has_value() || size->shift() >= 63) {
    Fail(Cat(Found(),
             " is no size of a page, write a power of two "
             "that the kernel offers, such as 2MiB or 1GiB"));
    return std::nullopt;
  }
  return size;
}

std::optional<std::string> Value::AsSocketDir(std::string_view socket) const {
  constexpr std::string_view kHint = "an absolute path such as /run/hugepool";
  const std::optional<std::string> word = AsText(kHint);
  if (!word.has_value()) return std::nullopt;
  if (word->starts_with("@")) {
    Fail(Cat(Found(),
             " asks for an abstract socket, which has no "
             "owner and no mode, write ",
             kHint));
    return std::nullopt;
  }
  const std::filesystem::path path(*word);
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (!path.is_absolute() || climbs) {
    Fail(Cat(Found(), climbs ? " contains '..'" : " is not absolute",
             ", write ", kHint));
    return std::nullopt;
  }
  std::string normal = path.lexically_normal().string();
  while (!normal.empty() && normal.back() == '/') normal.pop_back();
  if (normal.empty()) {
    Fail(Cat("sockets do not belong into '/', write ", kHint));
    return std::nullopt;
  }
  const size_t length = normal.size() + 1 + socket.size();
  if (length > kMaxSocketPath) {
    Fail(Cat("the path of its ", socket, " has ", length,
             " bytes and a socket's path at most ", kMaxSocketPath,
             ", write a directory of at most ",
             kMaxSocketPath - 1 - socket.size(), " bytes"));
    return std::nullopt;
  }
  return normal;
}

std::optional<std::string> Value::AsName(std::string_view hint) const {
  constexpr size_t kLongest = 64;
  std::optional<std::string> word = AsText(hint);
  if (!word.has_value()) return std::nullopt;
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("._:-", c);
  };
  if (word->empty() || word->size() > kLongest ||
      !std::all_of(word->begin(), word->end(), allowed)) {
    Fail(Cat(Found(), " is no name, write ", hint, " (at most ", kLongest,
             " letters, digits and . _ : -)"));
    return std::nullopt;
  }
  return word;
}

std::optional<size_t> Value::AsOneOf(
    std::span<const std::string_view> names) const {
  const std::optional<std::string> word = text();
  const auto it = word.has_value()
                      ? std::find(names.begin(), names.end(), *word)
                      : names.end();
  if (it == names.end()) {
    Fail(Cat(Found(), " is not known here, write one of: ", JoinWords(names)));
    return std::nullopt;
  }
  return it - names.begin();
}

std::optional<std::vector<Value>> Value::AsList(std::string_view hint) const {
  if (!node_.IsSequence()) {
    Fail(Cat(Found(), " where a list is needed, write ", hint));
    return std::nullopt;
  }
  if (node_.size() > kMaxItems) {
    Fail(Cat("has ", node_.size(), " items, write at most ", kMaxItems));
    return std::nullopt;
  }
  std::vector<Value> items;
  for (const YAML::Node& item : node_) {
    Origin at = at_;
    Append(&at.key, "[", items.size(), "]");
    if (item.Mark().line >= 0) at.line = item.Mark().line + 1;
    items.emplace_back(item, std::move(at), errors_);
  }
  return items;
}

void Value::UnknownKey(const Origin& at, std::string_view key,
                       std::span<const std::string_view> known) const {
  const std::string_view near = Nearest(key, known);
  if (!near.empty()) {
    errors_->Add(at, Cat("there is no such key, did you mean '", near, "'?"));
    return;
  }
  errors_->Add(at,
               Cat("there is no such key, known here are: ", JoinWords(known)));
}

bool Value::ReadMap(
    std::span<const std::string_view> known,
    const std::function<void(size_t, const Value&)>& read) const {
  if (node_.IsNull()) return true;
  if (!node_.IsMap()) {
    Fail(Cat(Found(),
             " where a map is needed, write 'key: value' "
             "lines with: ",
             JoinWords(known)));
    return false;
  }
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const YAML::Node& key = entry.first;
    Origin at = at_;
    if (key.Mark().line >= 0) at.line = key.Mark().line + 1;
    if (!key.IsScalar()) {
      errors_->Add(at, "a list or map is used as a key, write a word");
      continue;
    }
    const std::string& name = key.Scalar();
    const std::string shown =
        std::find(known.begin(), known.end(), name) != known.end()
            ? name
            : Quoted(name);
    at.key = at_.key.empty() ? shown : Cat(at_.key, ".", shown);
    const auto it = std::find(known.begin(), known.end(), name);
    if (it == known.end()) {
      UnknownKey(at, name, known);
    } else if (!seen.insert(name).second) {
      errors_->Add(at, "the key stands here twice, remove one of the two");
    } else {
      read(it - known.begin(), Value(entry.second, at, errors_));
    }
  }
  return true;
}

}  // namespace hugepool::server
