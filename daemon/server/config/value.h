// One value of a YAML document: where it stands, and how it is read as a type.
// Internal to the configuration: the only header that shows YAML.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_VALUE_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_VALUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/units.h"
#include "daemon/server/config/config.h"
#include "daemon/server/config/config_errors.h"
#include "yaml-cpp/yaml.h"

namespace hugepool::server {

// Each As... reads the value as one type. Where it is none, the reason and what
// to write instead go to the errors, and the result is nullopt.
class Value {
 public:
  // `errors` outlives the value. `at` holds the key's full path.
  Value(YAML::Node node, Origin at, ConfigErrors* errors)
      : node_(std::move(node)), at_(std::move(at)), errors_(errors) {}

  const Origin& at() const { return at_; }
  bool is_list() const { return node_.IsSequence(); }
  // The text where it is a scalar, else nullopt; never an error.
  std::optional<std::string> text() const;

  // Adds an error at this value: what is wrong, and what to write.
  void Fail(std::string_view what) const { errors_->Add(at_, what); }

  std::optional<std::string> AsText(std::string_view hint) const;
  std::optional<uint32_t> AsCount(uint32_t min, uint32_t max) const;
  std::optional<bool> AsBool() const;
  // With `suffix` behind it or not.
  std::optional<Bytes> AsBytes(std::string_view suffix = "") const;
  // A whole number of 1 to 100 with a percent sign.
  std::optional<Percent> AsPercent() const;
  std::optional<absl::Duration> AsDuration(absl::Duration min,
                                           absl::Duration max) const;
  std::optional<PageSize> AsPageSize() const;
  // An absolute path for a directory, made normal, that leaves room for a
  // socket called `socket` (N49, N56).
  std::optional<std::string> AsSocketDir(std::string_view socket) const;
  // Letters, digits and . _ : - only.
  std::optional<std::string> AsName(std::string_view hint) const;

  // Some checks compare each item of a list with each other one.
  static constexpr size_t kMaxItems = 4096;
  // The items of a list; nullopt (and an error) where it is none.
  std::optional<std::vector<Value>> AsList(std::string_view hint) const;

  // Calls `read(index, value)` for each key of a map, where index is its place
  // in `known`. Unknown and repeated keys are errors. A value that is missing
  // altogether is an empty map. False (and an error) where it is no map.
  bool ReadMap(std::span<const std::string_view> known,
               const std::function<void(size_t, const Value&)>& read) const;

  // One of `names`, by index.
  std::optional<size_t> AsOneOf(std::span<const std::string_view> names) const;

 private:
  void UnknownKey(const Origin& at, std::string_view key,
                  std::span<const std::string_view> known) const;
  // "'text'", "a list", "a map" or "no value".
  std::string Found() const;

  YAML::Node node_;
  Origin at_;
  ConfigErrors* errors_;
};

// The one of `known` that `word` was probably meant to be; empty where none is
// near. Pure.
std::string_view Nearest(std::string_view word,
                         std::span<const std::string_view> known);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_VALUE_H_
