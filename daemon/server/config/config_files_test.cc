// The example and the reference for operators say what the parser does.
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/server/config/config.h"
#include "daemon/server/config/fields.h"
#include "daemon/server/config/load.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

// Tests run at the root of the source tree.
constexpr char kExample[] = "deploy/hugepoold.yaml.example";
constexpr char kReference[] = "docs/configuration.md";

std::string Read(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(Example, IsTheDefaultConfiguration) {
  const absl::StatusOr<Config> config = LoadConfig(kExample);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(*config == DefaultConfig());
}

// Text is behind "# " and a word; keys are behind "#" or "#  ".
bool IsCommentedKey(const std::string& line) {
  if (line.size() < 2 || line[0] != '#') return false;
  return line[1] != ' ' || (line.size() > 2 && line[2] == ' ');
}

TEST(Example, IsAConfigurationWithoutItsHashesToo) {
  std::string text;
  std::ifstream file(kExample);
  for (std::string line; std::getline(file, line);) {
    absl::StrAppend(&text, IsCommentedKey(line) ? line.substr(1) : line, "\n");
  }
  const absl::StatusOr<Config> config = ParseConfig(text, kExample);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(*config == DefaultConfig());
  EXPECT_EQ(config->pools.size(), 2u);
  EXPECT_EQ(config->listeners.size(), 2u);
  EXPECT_EQ(config->domains.size(), 3u);
}

TEST(Example, HasEveryKey) {
  const std::string text = Read(kExample);
  for (const std::string& key : KnownKeys()) {
    const std::string last = key.substr(key.find('.') + 1);
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat(last, ":"))) << key;
  }
}

TEST(Reference, HasEveryKey) {
  const std::string text = Read(kReference);
  EXPECT_GT(KnownKeys().size(), 30u);
  for (const std::string& key : KnownKeys()) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("`", key, "`"))) << key;
  }
}

}  // namespace
}  // namespace hugepool::server
