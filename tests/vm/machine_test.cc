// How the daemon sees the guest: pools, threads, and nodes that have none.
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cases/case_test.h"
#include "tests/harness/runfile.h"
#include "tests/vm/guest_machine.h"
#include "tests/vm/placed_lease.h"

namespace hugepool::testing {
namespace {

using nlohmann::json;

constexpr int kThreads = 3;
constexpr absl::Duration kPatience = absl::Seconds(120);

class GuestMachineTest : public CaseTest {
 protected:
  // `pools`: the items of the YAML list.
  void Start(const std::string& pools) {
    StartDaemon(
        {.config = absl::StrCat("backend: hugetlb\n"
                                "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                                "pools: [",
                                pools,
                                "]\n"
                                "zeroing: {threads: ",
                                kThreads, ", bandwidth: none, stores: sse2}\n"),
         .as = UnprivilegedDaemon(),
         .start_within = kPatience});
    ASSERT_NE(daemon_, nullptr);
  }

  const GuestMachine machine_ = GuestMachine::Read();
  const NodeSet nodes_ = machine_.WithMemory();
};

TEST_F(GuestMachineTest, N10PoolsAreWhereMemoryIsByTheKernelsIds) {
  ASSERT_NO_FATAL_FAILURE(Start(
      "{page_size: 2MiB, target: 4MiB}, {page_size: 1GiB, target: 1GiB}"));
  const ProgramResult shown =
      RunProgram({RunfilePath("client/hpctl/hpctl"), "--socket", daemon_->dir(),
                  "-o", "json", "status"});
  ASSERT_EQ(shown.exit_code, 0) << shown.errors;
  const json status = json::parse(shown.output, nullptr, false);
  // {node, page size} -> the kernel's bytes
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> shows;
  for (const json& pool : status["pools"]) {
    shows[{pool.value("node", 99u), pool.value("page_size", uint64_t{0})}] =
        pool["kernel"].value("total_bytes", uint64_t{0});
  }
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> wanted;
  for (const uint32_t node : nodes_) {
    for (const auto& [size, count] : machine_.nodes.at(node).pages) {
      EXPECT_GT(count, 0u) << "the guest should have pages on node " << node;
      wanted[{node, size}] = count * size;
    }
  }
  EXPECT_EQ(shows, wanted) << shown.output;
}

TEST_F(GuestMachineTest, N15ThreadsAreOnTheNearestCpus) {
  ASSERT_NO_FATAL_FAILURE(Start("{page_size: 2MiB, target: 4MiB}"));
  std::multiset<CpuSet> stewards;
  std::multiset<CpuSet> workers;
  for (const uint32_t node : nodes_) {
    stewards.insert(machine_.CpusNear(node));
    for (int i = 0; i < kThreads; ++i) workers.insert(machine_.CpusNear(node));
  }
  EXPECT_EQ(ThreadCpus(daemon_->pid(), "hp-steward"), stewards);
  EXPECT_EQ(ThreadCpus(daemon_->pid(), "hp-worker"), workers);
}

TEST_F(GuestMachineTest, N10ANodeWithoutAPoolIsRefusedAndOthersAreListed) {
  if (nodes_.size() < 2) GTEST_SKIP() << "one node with memory";
  const uint32_t with_pool = *nodes_.rbegin();
  ASSERT_NO_FATAL_FAILURE(
      Start(absl::StrCat("{page_size: 2MiB, nodes: [", with_pool,
                         "], target: 4MiB, shapes: [2MiB]}")));
  auto client = Client::Connect(daemon_->dir());
  ASSERT_TRUE(client.ok()) << client.error().message();
  for (const uint32_t node : nodes_) {
    if (node == with_pool) continue;
    auto refused =
        client->Acquire(Request().Segment(2 << 20, Request::Bind({node})));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), HP_FAILED_PRECONDITION);
    EXPECT_EQ(refused.error().reason(), HP_REASON_NEVER_FITS);
    EXPECT_NE(std::string(refused.error().hint())
                  .find(absl::StrCat("node ", with_pool, ": 4 MiB")),
              std::string::npos)
        << refused.error().hint();
    auto spilled =
        client->Acquire(Request().Segment(2 << 20, Request::Prefer({node})));
    ASSERT_TRUE(spilled.ok()) << spilled.error().message();
    EXPECT_EQ(PagesByNode(*spilled),
              (std::map<uint32_t, uint64_t>{{with_pool, 1}}));
  }
}

}  // namespace
}  // namespace hugepool::testing
