// The harness itself, on the fake daemon: if it could not see foreign bytes,
// the tests built on it would pass for nothing.
#include <signal.h>

#include <string>
#include <vector>

#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "gtest/gtest.h"
#include "tests/harness/client_process.h"
#include "tests/harness/line.h"
#include "tests/harness/pattern.h"

namespace hugepool::testing {
namespace {

TEST(Line, KeepsWhatIsInIt) {
  const Line line =
      Line("acquire").Set("bytes", uint64_t{7}).Set("text", "a b%");
  const Line back = Line::Parse(line.Text());
  EXPECT_EQ(back.verb(), "acquire");
  EXPECT_EQ(back.Number("bytes"), 7u);
  EXPECT_EQ(back.Get("text"), "a b%");
  EXPECT_FALSE(back.Has("other"));
}

TEST(Pattern, SeesOneForeignWord) {
  std::vector<uint64_t> words(1 << 14);
  FillPattern(words.data(), words.size() * 8, 3, 100);
  EXPECT_EQ(CountForeignWords(words.data(), words.size() * 8, 3, 100), 0u);
  words[777] ^= 1;
  EXPECT_EQ(CountForeignWords(words.data(), words.size() * 8, 3, 100), 1u);
}

TEST(Pattern, SeesOneByteThatIsNotZero) {
  std::vector<char> bytes(1 << 18);
  EXPECT_EQ(CountNonZeroBytes(bytes.data(), bytes.size()), 0u);
  bytes[bytes.size() - 1] = 1;
  EXPECT_EQ(CountNonZeroBytes(bytes.data(), bytes.size()), 1u);
}

class ClientProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.Start();
    auto client = ClientProcess::Start();
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    Line connected = Say(Line("connect").Set("dir", dir_.path()));
    ASSERT_TRUE(connected.ok()) << connected;
  }
  Line Say(const Line& line) { return client_->Ask(line); }

  TestDir dir_;
  FakeDaemon daemon_{{.dir = dir_.path()}};
  std::unique_ptr<ClientProcess> client_;
};

TEST_F(ClientProcessTest, LeasesFillsAndReleases) {
  Line got = Say(Line("acquire").Set("bytes", uint64_t{4} << 20));
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(got.Number("extents"), 2u);
  EXPECT_EQ(Say(Line("zero")).Number("nonzero", 1), 0u);
  EXPECT_TRUE(Say(Line("fill").Set("seed", uint64_t{9})).ok());
  EXPECT_EQ(Say(Line("check").Set("seed", uint64_t{9})).Number("foreign", 1),
            0u);
  EXPECT_EQ(Say(Line("check").Set("seed", uint64_t{8})).Number("foreign"),
            uint64_t{4} << 17);
  EXPECT_TRUE(Say(Line("release")).ok());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_F(ClientProcessTest, ReportsErrorsWithTheirReason) {
  Line got = Say(Line("acquire").Set("bytes", uint64_t{1} << 40));
  EXPECT_FALSE(got.ok());
  EXPECT_NE(got.Get("reason"), "") << got;
}

TEST_F(ClientProcessTest, AChildAndAThirdProcessSeeTheSameMemory) {
  ASSERT_TRUE(Say(Line("acquire").Set("bytes", uint64_t{2} << 20)).ok());
  auto third = ClientProcess::Start({.uid = 65001, .gid = 65001});
  ASSERT_TRUE(third.ok()) << third.status();
  const std::string name = dir_.path();
  ASSERT_TRUE((*third)->Ask(Line("listen").Set("at", name)).ok());
  ASSERT_TRUE(Say(Line("pass").Set("to", name)).ok());
  ASSERT_TRUE((*third)->Ask(Line("receive").Set("as", "r")).ok());
  Line mapped = (*third)->Ask(Line("map_dups").Set("as", "r"));
  ASSERT_TRUE(mapped.ok()) << mapped;
  ASSERT_TRUE(Say(Line("watch_loop").Set("seed", uint64_t{1})).ok());
  ASSERT_TRUE(
      (*third)->Ask(Line("fill").Set("as", "r").Set("seed", uint64_t{2})).ok());
  Line seen = Say(Line("look"));
  while (seen.ok() && seen.Number("foreign") == 0) seen = Say(Line("look"));
  EXPECT_GT(seen.Number("foreign"), 0u) << seen;
  EXPECT_TRUE(Say(Line("stop")).ok());
  const Line child =
      Say(Line("fork").Set("seed", uint64_t{5}).Set("writes", ""));
  ASSERT_GT(child.Number("pid"), 1u) << child;
  Line check = Say(Line("check").Set("seed", uint64_t{2}));
  while (check.ok() && check.Number("foreign") == 0) {
    check = Say(Line("check").Set("seed", uint64_t{2}));
  }
  EXPECT_GT(check.Number("foreign"), 0u) << check;
}

TEST_F(ClientProcessTest, LivesOnWhenItsMemoryIsTruncated) {
  ASSERT_TRUE(Say(Line("acquire").Set("bytes", uint64_t{2} << 20)).ok());
  Line cut = Say(Line("truncate").Set("bytes", uint64_t{0}));
  ASSERT_TRUE(cut.ok()) << cut;
  EXPECT_GT(Say(Line("zero")).Number("faults"), 0u);
}

}  // namespace
}  // namespace hugepool::testing
