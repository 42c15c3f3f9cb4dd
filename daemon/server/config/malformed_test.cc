// Whatever the text, ParseConfig returns: it does not crash, throw, hang or
// take much memory, and its messages are lines that can be printed.
#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/base/views.h"
#include "daemon/server/config/load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

using ::testing::HasSubstr;

constexpr size_t kFull = kMaxConfigFile.value();

std::string Repeat(std::string_view what, size_t size) {
  std::string text;
  while (text.size() + what.size() <= size) text += what;
  return text;
}

// The message; empty where the text is a good configuration.
std::string Message(std::string_view text) {
  const absl::StatusOr<Config> config = ParseConfig(text, "f.yaml");
  if (config.ok()) return "";
  const std::string message(config.status().message());
  EXPECT_FALSE(message.empty());
  EXPECT_LT(message.size(), 100'000u);
  EXPECT_TRUE(std::none_of(message.begin(), message.end(), [](char c) {
    return c != '\n' && absl::ascii_iscntrl(c);
  })) << message;
  return message;
}

TEST(Malformed, Table) {
  const std::vector<std::string> kTexts = {
      "{",
      "}",
      "[",
      "]",
      ":",
      ": :",
      "? ",
      "? a",
      "- - -",
      "a: b: c",
      "\t",
      "a:\n\tb: c",
      "&a",
      "*a",
      "a: *nope",
      "!",
      "!!",
      "!<",
      "!<>",
      "!a!",
      "!!binary x",
      "%",
      "%YAML",
      "%YAML 9.9",
      "%TAG ! x",
      "--- ---",
      "...",
      "|",
      ">",
      "a: |9",
      "\"",
      "'",
      "\"\\",
      "\"\\x",
      "\"\\xZZ\"",
      "\"\\uD800\"",
      "\"\\UFFFFFFFF\"",
      "a: \"\\0\"",
      "@",
      "`",
      "#",
      ",",
      "[,]",
      "{,}",
      "{a,b}",
      "[a: b]",
      "{a: b",
      "<<: {a: b}",
      "~: ~",
      "null",
      "null: x",
      "\xff\xfe",
      "\xfe\xff",
      "\xef\xbb\xbf",
      "\xff",
      "\xc0\x80",
      "\xed\xa0\x80",
      "a\rb: c",
      "\x1b[31m: 1",
      "pools: {}",
      "pools: [[]]",
      "pools: [~]",
      "pools: [1]",
      "pools: [{}]",
      "pools: [{page_size: {}}]",
      "pools: [{page_size: []}]",
      "pools: [{page_size: -2M}]",
      "pools: [{page_size: 99999999999999999999T}]",
      "pools: [{page_size: 8388608T}]",
      "pools: [{page_size: 2M, nodes: {}}]",
      "pools: [{page_size: 2M, nodes: [[]]}]",
      "pools: [{page_size: 2M, target: '%'}]",
      "pools: [{page_size: 2M, target: 99999999999999999999%}]",
      "pools: [{page_size: 2M, target: 16777215T}]",
      "pools: [{page_size: 2M, shapes: [0]}]",
      "pools: [{page_size: 2M, shapes: {a: b}}]",
      "pools: &p [*p]",
      "&r {pools: *r}",
      "listeners: [{dir: ''}]",
      "listeners: [{dir: []}]",
      "listeners: [{group: {}}]",
      "domains: [{name: ''}]",
      "domains: [{name: 'uid:'}]",
      "domains: [{name: 'uid:99999999999'}]",
      "grants: {resume_grace: 1e999s}",
      "grants: {resume_grace: nans}",
      "? {a: b}\n: c",
      "? [a]\n: c",
      std::string("a\0b", 3),
  };
  for (const std::string& text : kTexts) {
    SCOPED_TRACE(text);
    Message(text);
  }
}

TEST(Malformed, DeepNesting) {
  constexpr std::string_view kDeep =
      "lists and maps are nested too deeply, write it flat";
  for (const std::string_view what : {"[", "{a: ", "- ", "? "}) {
    EXPECT_THAT(Message(Repeat(what, kFull)), HasSubstr(std::string(kDeep)));
  }
}

TEST(Malformed, AliasesAreNotMultiplied) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string n = std::to_string(i);
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + n + ": &a" + n + " [" + alias + ", " + alias + "]\n";
  }
  text += "pools: *a59\n";
  EXPECT_THAT(Message(text), HasSubstr("there is no such key"));
}

TEST(Malformed, LargeInputsEnd) {
  const absl::Time start = absl::Now();
  for (const std::string_view what :
       {"a: ", "\n", "- a\n", "k: v\n", "---\n", ":", "!", "&", "\"\"\n", "#",
        "'", "*a ", "pools: [", "\xff", "? a\n: b\n", "x"}) {
    Message(Repeat(what, kFull / 4));
  }
  Message("pools: [" + Repeat("{page_size: 2M}, ", kFull / 16) + "]");
  Message("listeners: [" + Repeat("{dir: /run/x}, ", kFull / 16) + "]");
  Message("domains: [" + Repeat("{name: x}, ", kFull / 16) + "]");
  Message("pools: [{page_size: 2M, nodes: [" + Repeat("7, ", kFull / 16) +
          "]}]");
  EXPECT_LT(absl::Now() - start, absl::Seconds(50));
}

TEST(Malformed, NulAndSize) {
  EXPECT_EQ(Message(std::string("log_level: info\0", 16)),
            "f.yaml: contains a NUL byte, write plain text (UTF-8)");
  EXPECT_EQ(Message(std::string(kFull + 1, ' ')),
            "f.yaml: is larger than 1 MiB, write a smaller file");
}

// A good text with some bytes changed, many times over; the seed is fixed, so
// that what fails once fails again.
TEST(Malformed, ChangedBytes) {
  constexpr std::string_view kGood = R"(listeners:
  - {dir: /run/hugepool, group: kvm, domain: "vms"}
admin: {group: &g ops}
pools:
  - page_size: 2MiB
    nodes: [0, 1]
    target: 64GiB
    low: 25%
    shapes: [2MiB, 32MiB]
kernel_pages: {mode: grow, max_percent: 50}
domains: [{name: vms, reuse: in-place, quota: 1G}]
grants: {acknowledge_within: 5s}
)";
  constexpr std::string_view kBytes = "{}[]:,-?&*!|>'\"%@`#\n\t ~0aZ\\\xff\x01";
  ASSERT_EQ(Message(kGood), "");
  std::mt19937 random(20240229);
  for (int round = 0; round < 5000; ++round) {
    std::string text(kGood);
    const int changes = 1 + random() % 4;
    for (int i = 0; i < changes; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, 1, kBytes[random() % kBytes.size()]);
          break;
      }
    }
    SCOPED_TRACE(text);
    Message(text);
  }
}

}  // namespace
}  // namespace hugepool::server
