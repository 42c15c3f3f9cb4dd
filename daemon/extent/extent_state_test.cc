#include "daemon/extent/extent_state.h"

#include <array>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace hugepool {
namespace {

// Every cell: rows are the state left, columns the state entered.
constexpr std::array<const char*, kExtentStates> kMoves = {
    //            EPCGHRpDcrSQVB
    /* empty */ "-x------------",
    /* populating */ "x-x------x---x",
    /* clean */ "-x-x-----x--x-",
    /* granted */ "--x-xx---x-x--",
    /* held */ "-----xx--xx---",
    /* returning */ "------x--x----",
    /* probing */ "----xx-x-x----",
    /* dirty */ "--------xx----",
    /* clearing */ "--x----x-x----",
    /* retiring */ "x-------------",
    /* splitting */ "----xx--------",
    /* preparing */ "---x----------",
    /* verifying */ "--x------x----",
    /* bare */ "---x-----x----",
};

ExtentState StateOf(int i) { return static_cast<ExtentState>(i); }

TEST(ExtentState, EveryCellOfTheTable) {
  for (int from = 0; from < kExtentStates; ++from) {
    for (int to = 0; to < kExtentStates; ++to) {
      EXPECT_EQ(CanMove(StateOf(from), StateOf(to)), kMoves[from][to] == 'x')
          << ToString(StateOf(from)) << " -> " << ToString(StateOf(to));
    }
  }
}

TEST(ExtentState, NumbersAreTheLedgersFormat) {
  constexpr std::array<ExtentState, kExtentStates> kInOrder = {
      ExtentState::kEmpty,     ExtentState::kPopulating, ExtentState::kClean,
      ExtentState::kGranted,   ExtentState::kHeld,       ExtentState::kReturning,
      ExtentState::kProbing,   ExtentState::kDirty,      ExtentState::kClearing,
      ExtentState::kRetiring,  ExtentState::kSplitting,  ExtentState::kPreparing,
      ExtentState::kVerifying, ExtentState::kBare};
  for (int i = 0; i < kExtentStates; ++i) {
    EXPECT_EQ(static_cast<int>(kInOrder[i]), i);
  }
}

TEST(ExtentState, ANumberOutsideIsNoStateAndMovesNowhere) {
  EXPECT_STREQ(ToString(StateOf(kExtentStates)), "unknown");
  EXPECT_STREQ(ToString(StateOf(255)), "unknown");
  for (int to = 0; to < kExtentStates; ++to) {
    EXPECT_FALSE(CanMove(StateOf(kExtentStates), StateOf(to)));
  }
}

// Clean is entered by a finished build or a finished clearing, or again by what
// was looked at, or promised and never opened for anybody. Empty is entered
// only by what gives memory back.
TEST(ExtentState, OnlyFinishedWorkMakesClean) {
  for (int from = 0; from < kExtentStates; ++from) {
    EXPECT_EQ(CanMove(StateOf(from), ExtentState::kClean),
              StateOf(from) == ExtentState::kPopulating ||
                  StateOf(from) == ExtentState::kClearing ||
                  StateOf(from) == ExtentState::kVerifying ||
                  StateOf(from) == ExtentState::kGranted);
    EXPECT_EQ(CanMove(StateOf(from), ExtentState::kEmpty),
              StateOf(from) == ExtentState::kPopulating ||
                  StateOf(from) == ExtentState::kRetiring);
  }
}

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells =
      absl::StrSplit(line, '|');  // "| a | b |" has an empty one at each end
  for (std::string& c : cells) c = std::string(absl::StripAsciiWhitespace(c));
  if (cells.size() < 2) return {};
  return {cells.begin() + 1, cells.end() - 1};
}

TEST(ExtentState, TheDocumentHasTheSameTable) {
  std::ifstream doc("docs/extent_lifecycle.md");
  ASSERT_TRUE(doc) << "docs/extent_lifecycle.md is not beside the test";
  std::string line;
  while (std::getline(doc, line) && !line.starts_with("| from \\ to |")) {
  }
  const std::vector<std::string> heads = Cells(line);
  ASSERT_EQ(heads.size(), size_t{kExtentStates} + 1);
  for (int to = 0; to < kExtentStates; ++to) {
    EXPECT_EQ(heads[to + 1], ToString(StateOf(to)));
  }
  std::getline(doc, line);  // |---|
  for (int from = 0; from < kExtentStates; ++from) {
    ASSERT_TRUE(std::getline(doc, line));
    const std::vector<std::string> cells = Cells(line);
    ASSERT_EQ(cells.size(), size_t{kExtentStates} + 1) << line;
    EXPECT_EQ(cells[0], ToString(StateOf(from)));
    for (int to = 0; to < kExtentStates; ++to) {
      const std::string expected =
          CanMove(StateOf(from), StateOf(to)) ? "x" : "-";
      EXPECT_EQ(cells[to + 1], expected)
          << ToString(StateOf(from)) << " -> " << ToString(StateOf(to));
    }
  }
}

TEST(ExtentState, TheDocumentExplainsEveryState) {
  std::ifstream doc("docs/extent_lifecycle.md");
  std::map<std::string, int> explained;
  std::string line;
  while (std::getline(doc, line)) {
    if (const auto cells = Cells(line); cells.size() == 3) ++explained[cells[0]];
  }
  for (int i = 0; i < kExtentStates; ++i) {
    EXPECT_EQ(explained[std::string("`") + ToString(StateOf(i)) + "`"], 1)
        << ToString(StateOf(i));
  }
}

}  // namespace
}  // namespace hugepool
