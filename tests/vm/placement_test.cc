// Where leased memory comes from, on a machine with several nodes: N10, N11,
// N12, N15. Every page of every lease is looked up by move_pages(2).
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "daemon/base/units.h"
#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/recount.h"
#include "tests/vm/guest_machine.h"
#include "tests/vm/placed_lease.h"

namespace hugepool::testing {
namespace {

using ByNode = std::map<uint32_t, uint64_t>;

// Of each size, on every node: as many as the kernel has at least.
constexpr uint64_t k2MPages = 32;
constexpr uint64_t k1GPages = 1;
// An emulated CPU zeroes a 1G page in seconds.
constexpr absl::Duration kPatience = absl::Seconds(120);

constexpr char kConfig[] = R"(backend: hugetlb
listeners: [{dir: "@DIR@", group: "*"}]
pools:
  - {page_size: 2MiB, target: 64MiB, shapes: [2MiB, 16MiB]}
  - {page_size: 1GiB, target: 1GiB}
zeroing: {bandwidth: none, stores: sse2}
)";

// One daemon for all tests; each gives back what it took.
class PlacementTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static void SetUpTestSuite() {
    auto daemon = DaemonProcess::Start({.config = kConfig,
                                        .as = UnprivilegedDaemon(),
                                        .start_within = kPatience});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = std::move(*daemon).release();
  }
  static void TearDownTestSuite() {
    const std::unique_ptr<DaemonProcess> daemon(daemon_);
    daemon_ = nullptr;
    if (daemon == nullptr) return;
    const absl::Status stopped = daemon->Stop();
    EXPECT_TRUE(stopped.ok()) << stopped;
  }
  void SetUp() override {
    ASSERT_NE(daemon_, nullptr) << "no daemon";
    auto client = Client::Connect(daemon_->dir());
    ASSERT_TRUE(client.ok()) << client.error().message();
    client_ = std::make_unique<Client>(client.take());
  }
  void TearDown() override {
    leases_.clear();
    client_.reset();
    if (daemon_ == nullptr) return;
    EXPECT_EQ(WaitForAllClean(daemon_, kPatience), "");
    if (HasFailure()) std::printf("%s", daemon_->Log().c_str());
  }

  uint64_t page_size() const { return GetParam(); }
  // Pages of the size in the pool of each node.
  uint64_t pages_per_node() const {
    return page_size() == k1G.bytes().value() ? k1GPages : k2MPages;
  }

  Request Ask(uint64_t pages, Where where) const {
    return Request().Segment(pages * page_size(), std::move(where),
                             {page_size()});
  }
  // Leases and keeps it; where the pages are. Empty, and the test failed, where
  // it is refused.
  ByNode Take(uint64_t pages, Where where) {
    auto lease = client_->Acquire(Ask(pages, std::move(where)));
    if (!lease.ok()) {
      ADD_FAILURE() << lease.error().message() << "; " << lease.error().hint();
      return {};
    }
    leases_.push_back(lease.take());
    return PagesByNode(leases_.back());
  }
  // The error of a request that must be refused.
  Error Refusal(uint64_t pages, Where where) {
    auto lease = client_->Acquire(Ask(pages, std::move(where)));
    if (!lease.ok()) return lease.error();
    ADD_FAILURE() << "granted";
    return Error();
  }
  void Drop() {
    leases_.clear();
    ASSERT_EQ(WaitForAllClean(daemon_, kPatience), "");
  }

  static DaemonProcess* daemon_;
  const GuestMachine machine_ = GuestMachine::Read();
  const NodeSet nodes_ = machine_.WithMemory();
  std::unique_ptr<Client> client_;
  std::vector<Lease> leases_;
};

DaemonProcess* PlacementTest::daemon_ = nullptr;

TEST_P(PlacementTest, N12EveryBoundPageIsOnItsNode) {
  for (const uint32_t node : nodes_) {
    EXPECT_EQ(Take(pages_per_node(), Request::Bind({node})),
              (ByNode{{node, pages_per_node()}}));
  }
  // Nobody has any more now, so each came from the right pool.
  EXPECT_EQ(Refusal(1, Where()).reason(), HP_REASON_POOL_SHORT);
}

TEST_P(PlacementTest, N11BindNeverSpillsAndPreferDoes) {
  for (const uint32_t node : nodes_) {
    SCOPED_TRACE(absl::StrCat("node ", node));
    Take(pages_per_node(), Request::Bind({node}));
    const Error bound = Refusal(1, Request::Bind({node}));
    EXPECT_EQ(bound.code(), HP_RESOURCE_EXHAUSTED) << bound.message();
    EXPECT_EQ(bound.reason(), HP_REASON_POOL_SHORT) << bound.message();
    EXPECT_EQ(bound.available_bytes(), 0u);
    if (nodes_.size() == 1) {
      EXPECT_EQ(Refusal(1, Request::Prefer({node})).reason(),
                HP_REASON_POOL_SHORT);
    } else {
      const ByNode spilled = Take(1, Request::Prefer({node}));
      EXPECT_EQ(spilled.count(node), 0u);
      EXPECT_EQ(spilled.size(), 1u);
    }
    Drop();
  }
}

TEST_P(PlacementTest, N11PreferTakesItsOwnNodeFirst) {
  for (const uint32_t node : nodes_) {
    SCOPED_TRACE(absl::StrCat("node ", node));
    EXPECT_EQ(Take(1, Request::Prefer({node})), (ByNode{{node, 1}}));
    Drop();
    if (nodes_.size() == 1) continue;
    // More than any node has: all of the preferred one's, and the rest.
    ByNode split = Take(pages_per_node() + 1, Request::Prefer({node}));
    EXPECT_EQ(split[node], pages_per_node());
    EXPECT_EQ(split.size(), 2u);
    Drop();
  }
}

TEST_P(PlacementTest, N11InterleaveIsEven) {
  const uint64_t share = pages_per_node() / 2 + 1;
  if (pages_per_node() < share) FAIL() << "too few pages";
  ByNode even;
  for (const uint32_t node : nodes_) even[node] = share;
  EXPECT_EQ(Take(share * nodes_.size(), Request::Interleave()), even);
  Drop();
  // Only the listed ones.
  const uint32_t last = *nodes_.rbegin();
  EXPECT_EQ(Take(share, Request::Interleave({last})), (ByNode{{last, share}}));
}

TEST_P(PlacementTest, N10AnyGoesWhereMostIsClean) {
  for (const uint32_t most : nodes_) {
    SCOPED_TRACE(absl::StrCat("most is on node ", most));
    for (const uint32_t node : nodes_) {
      if (node != most) Take(1, Request::Bind({node}));
    }
    EXPECT_EQ(Take(1, Where()), (ByNode{{most, 1}}));
    Drop();
  }
}

TEST_P(PlacementTest, N10ANodeWithoutMemoryIsRefusedAndOthersAreListed) {
  for (const uint32_t node : machine_.WithoutMemory()) {
    for (const Where& where : {Request::Bind({node}), Request::Prefer({node}),
                               Request::Interleave({*nodes_.begin(), node})}) {
      const Error error = Refusal(1, where);
      EXPECT_EQ(error.code(), HP_INVALID_ARGUMENT) << error.message();
      EXPECT_EQ(error.reason(), HP_REASON_NO_SUCH_NODE) << error.message();
      EXPECT_EQ(std::string(error.message()).find(absl::StrCat("node ", node)),
                0u)
          << error.message();
      EXPECT_EQ(std::string(error.hint()),
                absl::StrCat("nodes with memory: ", Join(nodes_)));
    }
  }
}

// A copy has its own placement, and its source's bytes.
TEST_P(PlacementTest, N11ACopyIsOnTheNodeThatItAskedFor) {
  const uint32_t from = *nodes_.begin();
  const uint32_t to = *nodes_.rbegin();
  if (from == to) GTEST_SKIP() << "one node with memory";
  Take(1, Request::Bind({from}));
  const MemorySegment source = leases_.back().segment(0);
  auto* const words = static_cast<uint64_t*>(source.data);
  for (uint64_t i = 0; i < source.size / 8; i += 512) words[i + i % 509] = i + 1;
  auto copy = client_->Acquire(
      Ask(1, Request::Bind({to})).CopyFrom(leases_.back().id()));
  ASSERT_TRUE(copy.ok()) << copy.error().message();
  const MemorySegment memory = copy->segment(0);
  EXPECT_EQ(std::memcmp(memory.data, source.data, source.size), 0);
  // Whose bytes are looked at below must be zero.
  std::memset(memory.data, 0, memory.size);
  EXPECT_EQ(PagesByNode(*copy), (ByNode{{to, 1}}));
}

// The library's "local" on every CPU: its node, or the nearest with memory.
TEST_P(PlacementTest, N15LocalIsTheNearestNodeWithMemory) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (const auto& [id, node] : machine_.nodes) {
    for (const int cpu : node.cpus) {
      SCOPED_TRACE(absl::StrCat("CPU ", cpu, " of node ", id));
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      EXPECT_EQ(Take(1, Request::Local()),
                (ByNode{{machine_.MemoryNear(id), 1}}));
      Drop();
    }
  }
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, PlacementTest,
                         ::testing::Values(k2M.bytes().value(),
                                           k1G.bytes().value()),
                         [](const auto& info) {
                           return info.param == k1G.bytes().value()
                                      ? std::string("1G")
                                      : std::string("2M");
                         });

}  // namespace
}  // namespace hugepool::testing
