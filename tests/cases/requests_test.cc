// Field cases about what is asked for and what is granted.
#include <fcntl.h>
#include <sys/mman.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "client/testing/sanitized.h"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/pattern.h"

namespace hugepool::testing {
namespace {

using RequestsTest = CaseTest;

TEST_F(RequestsTest, N7IdsAreNeverUsedAgainWhileDescriptorsAre) {
  if (!StartWithPages(4)) return;
  auto client = Client::Connect(daemon_->dir());
  ASSERT_TRUE(client.ok()) << client.error().message();
  std::set<std::string> ids;
  std::set<int> fds;
  for (Seed seed = 1; seed <= 1000; ++seed) {
    auto lease = client->Acquire(
        Request().Segment(4 << 20).Wait(std::chrono::seconds(10)));
    ASSERT_TRUE(lease.ok()) << seed << ": " << lease.error().message();
    const MemorySegment memory = lease->segment(0);
    ASSERT_EQ(CountNonZeroBytes(memory.data, memory.size), 0u) << seed;
    FillPattern(memory.data, memory.size, seed);
    ASSERT_EQ(CountForeignWords(memory.data, memory.size, seed), 0u);
    EXPECT_TRUE(ids.insert(lease->id()).second) << lease->id();
    for (size_t i = 0; i < lease->extent_count(); ++i) {
      fds.insert(lease->extent(i).fd);
    }
    ASSERT_TRUE(lease->Release().ok());
  }
  EXPECT_LT(fds.size(), 100u);  // numbers are used again
  ExpectAllBack();
}

TEST_F(RequestsTest, N10AnyNodeIsNotNodeZeroAndAMissingOneIsNamed) {
  if (!StartWithPages(4)) return;
  auto client = NewClient();
  const Line any = client->Ask(Acquire2M(1));
  EXPECT_TRUE(any.ok()) << any;
  EXPECT_TRUE(client->Ask(Line("release")).ok());
  const Line missing = client->Ask(Acquire2M(1).Set("bind", "77"));
  EXPECT_EQ(missing.Get("reason"), "ERROR_REASON_NO_SUCH_NODE") << missing;
  EXPECT_NE((missing.Get("message") + missing.Get("hint")).find("77"),
            std::string::npos)
      << missing;
  EXPECT_NE(missing.Get("hint").find('0'), std::string::npos) << missing;
  ExpectServes(4);
}

TEST_F(RequestsTest, N20OfTwoThatAskForTheLastEightOneGetsThem) {
  if (!StartWithPages(8)) return;
  auto a = NewClient(65001);
  auto b = NewClient(65002);
  for (int round = 0; round < 50; ++round) {
    a->Say(Acquire2M(8));
    b->Say(Acquire2M(8));
    const Line of_a = a->Answer();
    const Line of_b = b->Answer();
    ASSERT_EQ(of_a.ok() + of_b.ok(), 1) << of_a << "\n" << of_b;
    EXPECT_EQ((of_a.ok() ? of_b : of_a).Get("reason"),
              "ERROR_REASON_POOL_SHORT");
    ASSERT_TRUE((of_a.ok() ? a : b)->Ask(Line("release")).ok());
    ExpectAllBack();
  }
  // With a wait both are served, one after the other.
  a->Say(Acquire2M(8, 10000));
  b->Say(Acquire2M(8, 10000));
  const auto first = [&] {
    const Line of_a = a->Answer(absl::Seconds(2));
    return of_a.ok() ? a.get() : b.get();
  }();
  ClientProcess* const second = first == a.get() ? b.get() : a.get();
  if (first == b.get()) {
    ASSERT_TRUE(b->Answer().ok());
  }
  ASSERT_TRUE(first->Ask(Line("release")).ok());
  const Line served = second->Answer(absl::Seconds(15));
  EXPECT_TRUE(served.ok()) << served;
}

TEST_F(RequestsTest, N21OddSizesAreRoundedUpAndTheReplySaysTo) {
  if (!StartWithPages(4)) return;
  auto client = NewClient();
  const uint64_t page = 2 << 20;
  for (const auto& [asked, granted] :
       std::vector<std::pair<uint64_t, uint64_t>>{
           {1, page}, {page, page}, {page + 1, 2 * page}}) {
    const Line got = client->Ask(Line("acquire")
                                     .Set("bytes", asked)
                                     .Set("page", page)
                                     .Set("wait", uint64_t{5000}));
    ASSERT_TRUE(got.ok()) << got;
    EXPECT_EQ(got.Number("granted"), granted);
    // Unmapping the granted length cannot fail; the library does it so.
    EXPECT_TRUE(client->Ask(Line("unmap")).ok());
    EXPECT_TRUE(client->Ask(Line("release")).ok());
  }
  ExpectAllBack();
}

TEST_F(RequestsTest, N26TooManyMappingsNameTheLimit) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs mappings of its own";
  if (!StartWithPages(16)) return;
  auto client = Client::Connect(daemon_->dir());
  ASSERT_TRUE(client.ok()) << client.error().message();
  // Every second page of a range protected otherwise: a mapping each.
  const size_t small = 4096;
  const size_t count = 70000;
  auto* const range = static_cast<char*>(
      mmap(nullptr, count * small, PROT_READ,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(range, MAP_FAILED);
  for (size_t i = 0; i < count; i += 2) {
    if (mprotect(range + i * small, small, PROT_NONE) != 0) break;
  }
  // No expectation allocates before there is room again.
  std::string message;
  hp_code code = HP_OK;
  {
    auto lease = client->Acquire(Request().Segment(32 << 20));
    if (!lease.ok()) {
      code = lease.error().code();
      message = lease.error().message();
    }
  }
  munmap(range, count * small);
  EXPECT_EQ(code, HP_RESOURCE_EXHAUSTED) << message;
  EXPECT_NE(message.find("vm.max_map_count"), std::string::npos) << message;
  ExpectAllBack();
}

TEST_F(RequestsTest, N27ThePageSizeIsInTheReplyAndInTheFile) {
  if (!HavePages(4, 1)) return;
  StartDaemon({.config = "backend: hugetlb\n"
                         "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                         "pools: [{page_size: 2MiB, target: 8MiB}, "
                         "{page_size: 1GiB, target: 1GiB}]\n",
               .as = UnprivilegedDaemon()});
  auto client = NewClient();
  for (const PageSize size : {k2M, k1G}) {
    const uint64_t bytes = size.bytes().value();
    const Line got =
        client->Ask(Line("acquire").Set("bytes", bytes).Set("page", bytes));
    ASSERT_TRUE(got.ok()) << got;
    EXPECT_EQ(got.Number("page"), bytes);
    EXPECT_EQ(client->Ask(Line("stat")).Number("blksize"), bytes);
    EXPECT_TRUE(client->Ask(Line("release")).ok());
  }
}

// A file that was given to its holder can still be asked about by a daemon that
// is not root.
TEST_F(RequestsTest, AReopenableMemoryLeaseEndsWithItsHolder) {
  if (!StartWithPages(4)) return;
  auto client = NewClient();
  const Line got =
      client->Ask(Acquire2M(4).Set("lifetime", "memory").Set("reopenable", ""));
  ASSERT_TRUE(got.ok()) << got;
  ASSERT_EQ(client->Ask(Line("stat")).Number("uid"), 65001u);
  ASSERT_TRUE(client->Ask(Line("fill")).ok());
  // A part of it may go; while one page is mapped nothing is taken.
  ASSERT_TRUE(client->Ask(Line("close")).ok());
  EXPECT_EQ(client->Ask(Line("check")).Number("foreign", 1), 0u);
  ASSERT_TRUE(client->Ask(Line("drop")).ok());
  ExpectAllBack();
  // The same by death.
  ASSERT_TRUE(client
                  ->Ask(Acquire2M(4, 5000)
                            .Set("lifetime", "memory")
                            .Set("reopenable", ""))
                  .ok());
  client->Kill();
  ExpectAllBack();
}

}  // namespace
}  // namespace hugepool::testing
