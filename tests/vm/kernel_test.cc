// What the daemon needs of a kernel, on the guest's: another one than that of
// the machine on which the tests run.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/hugepool.hpp"
#include "gtest/gtest.h"
#include "tests/cases/case_test.h"
#include "tests/harness/recount.h"
#include "tests/vm/guest_machine.h"
#include "tests/vm/placed_lease.h"

namespace hugepool::testing {
namespace {

constexpr uint64_t kGiB = 1 << 30;
constexpr absl::Duration kPatience = absl::Seconds(120);

// Bytes of huge pages that this process has in its page tables in the mapping
// at `address`, as /proc/self/smaps says.
uint64_t BytesPresent(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  const std::string begin =
      absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(address)), "-");
  bool found = false;
  uint64_t kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    found = found || absl::StartsWith(line, begin);
    if (!found) continue;
    if (absl::StartsWith(line, "VmFlags:")) break;
    if (!absl::StartsWith(line, "Shared_Hugetlb:") &&
        !absl::StartsWith(line, "Private_Hugetlb:")) {
      continue;
    }
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t number = 0;
    if (words.size() > 1 && absl::SimpleAtoi(words[1], &number)) kib += number;
  }
  return kib << 10;
}

class GuestKernelTest : public CaseTest {
 protected:
  void Start(const std::string& pools, const std::string& more = "") {
    StartDaemon(
        {.config = absl::StrCat("backend: hugetlb\n"
                                "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                                "zeroing: {bandwidth: none}\n"
                                "pools: [",
                                pools, "]\n", more),
         .as = UnprivilegedDaemon(),
         .start_within = kPatience});
    ASSERT_NE(daemon_, nullptr);
  }
  // A node with a GiB of 2M pages, or -1.
  static int NodeWithAGib() {
    for (const auto& [id, node] : GuestMachine::Read().nodes) {
      const auto pages = node.pages.find(2 << 20);
      if (pages != node.pages.end() && pages->second >= 512) {
        return static_cast<int>(id);
      }
    }
    return -1;
  }
};

TEST_F(GuestKernelTest, TheLeaseProbePassesItsSelfTest) {
  ASSERT_NO_FATAL_FAILURE(Start("{page_size: 2MiB, target: 4MiB}"));
  const auto status = daemon_->GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->probe(), "lease");
  EXPECT_EQ(status->backend(), "hugetlb");
}

// One touch brings the page tables of a whole GiB, which the daemon has filled.
TEST_F(GuestKernelTest, AGibOf2MPagesComesWithItsPageTables) {
  const int node = NodeWithAGib();
  ASSERT_GE(node, 0) << "no node of the guest has 512 pages of 2M";
  ASSERT_NO_FATAL_FAILURE(Start(absl::StrCat(
      "{page_size: 2MiB, nodes: [", node, "], target: 1GiB, shapes: [1GiB]}")));
  auto client = Client::Connect(daemon_->dir());
  ASSERT_TRUE(client.ok()) << client.error().message();
  for (const bool shared : {true, false}) {
    auto lease = client->Acquire(
        Request()
            .Segment(kGiB, Request::Bind({static_cast<uint32_t>(node)}))
            .Flags(shared ? 0 : HP_REQUEST_DONTFORK)
            .Wait(std::chrono::seconds(120)));
    ASSERT_TRUE(lease.ok()) << lease.error().message();
    ASSERT_EQ(lease->extent_count(), 1u);
    char* const data = static_cast<char*>(lease->segment(0).data);
    EXPECT_EQ(BytesPresent(data), 0u);
    data[0] = 1;
    // A mapping that is kept from children cannot share them.
    EXPECT_EQ(BytesPresent(data), shared ? kGiB : uint64_t{2} << 20);
    data[0] = 0;
    EXPECT_EQ(PagesByNode(*lease),
              (std::map<uint32_t, uint64_t>{
                  {static_cast<uint32_t>(node), uint64_t{512}}}));
    ASSERT_TRUE(lease->Release().ok());
  }
  EXPECT_EQ(WaitForAllClean(daemon_.get(), kPatience), "");
}

TEST_F(GuestKernelTest, MemoryIsClearedInPlace) {
  ASSERT_NO_FATAL_FAILURE(
      Start("{page_size: 2MiB, target: 8MiB, shapes: [8MiB]}, "
            "{page_size: 1GiB, target: 1GiB}",
            "reuse: in-place\n"));
  for (const uint64_t page : {uint64_t{2} << 20, kGiB}) {
    SCOPED_TRACE(page);
    const uint64_t bytes = page == kGiB ? kGiB : uint64_t{8} << 20;
    const NodeSet nodes = GuestMachine::Read().WithMemory();
    for (const uint32_t node : nodes) {
      Line ask = Line("acquire")
                     .Set("bytes", bytes)
                     .Set("page", page)
                     .Set("bind", uint64_t{node})
                     .Set("private", "");
      auto client = NewClient();
      const Line first = client->Ask(ask);
      ASSERT_TRUE(first.ok()) << first;
      EXPECT_EQ(first.Number("in_place", 9), 0u);
      ASSERT_TRUE(client->Ask(Line("fill").Set("seed", uint64_t{7})).ok());
      EXPECT_EQ(client->Ask(Line("check").Set("seed", uint64_t{7}))
                    .Number("foreign", 9),
                0u);
      ASSERT_TRUE(client->Ask(Line("release")).ok());
      ASSERT_EQ(WaitForAllClean(daemon_.get(), kPatience), "");
      const Line again = client->Ask(ask);
      ASSERT_TRUE(again.ok()) << again;
      EXPECT_EQ(again.Number("in_place", 9), 1u) << again;
      const Line zero = client->Ask(Line("zero"));
      EXPECT_EQ(zero.Number("nonzero", 9), 0u) << zero;
      EXPECT_EQ(zero.Number("bytes"), bytes);
      ASSERT_TRUE(client->Ask(Line("release")).ok());
      ASSERT_EQ(WaitForAllClean(daemon_.get(), kPatience), "");
    }
  }
}

}  // namespace
}  // namespace hugepool::testing
