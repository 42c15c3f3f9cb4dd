#include "daemon/extent/extent_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include <gtest/gtest.h>

namespace hugepool {
namespace {

using enum ExtentState;

constexpr ExtentTable::Birth kBirth{NodeId(3), k1G, PageCount(5)};

class ExtentTableTest : public testing::Test {
 protected:
  static std::unique_ptr<ExtentTable> Make(uint32_t capacity) {
    auto table = ExtentTable::Create(capacity);
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }

  std::unique_ptr<ExtentTable> table_ = Make(4);
};

// The ledger as another process sees it, by byte offsets.
class SecondView {
 public:
  explicit SecondView(int fd) {
    struct stat st;
    fstat(fd, &st);
    size_ = static_cast<size_t>(st.st_size);
    base_ = static_cast<const char*>(
        mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0));
  }
  ~SecondView() { munmap(const_cast<char*>(base_), size_); }
  size_t size() const { return size_; }
  template <typename T>
  T At(size_t offset) const {
    T value;
    std::memcpy(&value, base_ + offset, sizeof(T));
    return value;
  }

 private:
  const char* base_;
  size_t size_ = 0;
};

TEST_F(ExtentTableTest, RefusesSizesThatCannotBe) {
  for (uint32_t capacity : {0u, (1u << 26) + 1, ~0u}) {
    EXPECT_EQ(ExtentTable::Create(capacity).status().code(),
              absl::StatusCode::kInvalidArgument)
        << capacity;
  }
}

TEST_F(ExtentTableTest, HeaderAndSlotsHaveTheWrittenLayout) {
  const SlotId slot = *table_->Allocate(kBirth);
  table_->set_inode(slot, 0x1122334455667788);
  table_->set_lease(slot, LeaseId(0x99aabbccddeeff01));
  table_->set_domain(slot, DomainId(17));
  table_->set_origin(slot, ExtentOrigin::kClearedInPlace);
  table_->Move(slot, kPopulating, kClean);

  SecondView view(table_->fd());
  EXPECT_EQ(view.size(), size_t{5} * 64) << "the header and 4 slots";
  EXPECT_EQ(view.At<uint64_t>(0), 0x31454c4254505548u) << "HUPTBLE1";
  EXPECT_EQ(view.At<uint32_t>(8), 1u) << "version";
  EXPECT_EQ(view.At<uint32_t>(12), 64u) << "bytes a slot";
  EXPECT_EQ(view.At<uint32_t>(16), 4u) << "capacity";
  ASSERT_EQ(slot, SlotId(1));
  EXPECT_EQ(view.At<uint64_t>(64 + 0), static_cast<uint64_t>(kClean));
  EXPECT_EQ(view.At<uint64_t>(64 + 8), 0x99aabbccddeeff01u) << "lease";
  EXPECT_EQ(view.At<uint64_t>(64 + 16), 0x1122334455667788u) << "inode";
  EXPECT_EQ(view.At<uint32_t>(64 + 24), 17u) << "domain";
  EXPECT_EQ(view.At<uint32_t>(64 + 28), 5u) << "pages";
  EXPECT_EQ(view.At<uint32_t>(64 + 32), 3u) << "node";
  EXPECT_EQ(view.At<uint32_t>(64 + 36), 1u) << "births";
  EXPECT_EQ(view.At<uint8_t>(64 + 40), 30u) << "page shift";
  EXPECT_EQ(view.At<uint8_t>(64 + 41), 2u) << "origin";
  for (size_t i = 42; i < 64; ++i) EXPECT_EQ(view.At<uint8_t>(64 + i), 0u);
}

TEST_F(ExtentTableTest, EveryMoveIsSeenThroughASecondMapping) {
  SecondView view(table_->fd());
  const SlotId slot = *table_->Allocate(kBirth);
  const auto seen = [&] {
    return static_cast<ExtentState>(view.At<uint64_t>(64));
  };
  EXPECT_EQ(seen(), kPopulating);
  constexpr ExtentState kLife[] = {kClean,   kGranted,  kHeld,  kProbing,
                                   kReturning, kProbing, kDirty, kClearing,
                                   kClean,   kRetiring};
  ExtentState at = kPopulating;
  for (ExtentState next : kLife) {
    table_->Move(slot, at, next);
    at = next;
    EXPECT_EQ(seen(), next);
    EXPECT_EQ(table_->state(slot), next);
  }
  table_->Free(slot, kRetiring);
  EXPECT_EQ(seen(), kEmpty);
}

// F_SEAL_EXEC, which not all headers know: set where the kernel knows
// MFD_NOEXEC_SEAL.
constexpr int kSealExec = 0x20;

TEST_F(ExtentTableTest, TheMemfdIsSealedAndClosedOnExec) {
  EXPECT_EQ(fcntl(table_->fd(), F_GET_SEALS) & ~kSealExec,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_EQ(ftruncate(table_->fd(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(table_->fd(), 1 << 20), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fcntl(table_->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(fcntl(table_->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(ExtentTableTest, AFullTableSaysSoAndTakesUpFreedSlots) {
  std::set<uint32_t> slots;
  for (int i = 0; i < 4; ++i) slots.insert(table_->Allocate(kBirth)->value());
  EXPECT_EQ(slots, (std::set<uint32_t>{1, 2, 3, 4}));
  EXPECT_FALSE(table_->Allocate(kBirth).has_value());
  table_->Free(SlotId(2), kPopulating);
  EXPECT_EQ(table_->Allocate(kBirth), SlotId(2));
  EXPECT_FALSE(table_->Allocate(kBirth).has_value());
}

TEST_F(ExtentTableTest, BirthsMakeIdsUnique) {
  std::set<ExtentId> ids;
  for (int i = 0; i < 1000; ++i) {
    const SlotId slot = *table_->Allocate(kBirth);
    EXPECT_EQ(slot, SlotId(1)) << "freed slots are used again";
    const ExtentId id = table_->id(slot);
    EXPECT_TRUE(ids.insert(id).second) << id;
    EXPECT_EQ(ExtentTable::SlotOf(id), slot);
    table_->Free(slot, kPopulating);
  }
}

TEST_F(ExtentTableTest, ABirthForgetsTheFormerLife) {
  SlotId slot = *table_->Allocate(kBirth);
  table_->set_lease(slot, LeaseId(7));
  table_->set_domain(slot, DomainId(8));
  table_->set_inode(slot, 9);
  table_->set_origin(slot, ExtentOrigin::kClearedInPlace);
  table_->Free(slot, kPopulating);
  slot = *table_->Allocate({NodeId(0), k2M, PageCount(16)});
  EXPECT_EQ(table_->node(slot), NodeId(0));
  EXPECT_EQ(table_->page_size(slot), k2M);
  EXPECT_EQ(table_->pages(slot), PageCount(16));
  EXPECT_FALSE(table_->lease(slot).valid());
  EXPECT_FALSE(table_->domain(slot).valid());
  EXPECT_EQ(table_->inode(slot), 0u);
  EXPECT_EQ(table_->origin(slot), ExtentOrigin::kPopulated);
  EXPECT_EQ(table_->state(slot), kPopulating);
}

TEST_F(ExtentTableTest, LivingAreThoseThatAreNotEmpty) {
  for (int i = 0; i < 3; ++i) (void)table_->Allocate(kBirth);
  table_->Free(SlotId(2), kPopulating);
  EXPECT_EQ(table_->Living(), (std::vector<SlotId>{SlotId(1), SlotId(3)}));
}

TEST_F(ExtentTableTest, ManyThreadsGetDifferentSlots) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  auto table = Make(kThreads * kEach);
  std::vector<std::vector<SlotId>> got(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        SlotId slot = *table->Allocate(kBirth);
        if (i % 3 == 0) {
          table->Free(slot, kPopulating);
          slot = *table->Allocate(kBirth);
        }
        got[t].push_back(slot);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::set<SlotId> all;
  for (const auto& g : got) all.insert(g.begin(), g.end());
  EXPECT_EQ(all.size(), size_t{kThreads} * kEach);
}

using ExtentTableDeathTest = ExtentTableTest;

TEST_F(ExtentTableDeathTest, AMoveThatTheLifecycleLacksDies) {
  const SlotId slot = *table_->Allocate(kBirth);
  EXPECT_DEATH(table_->Move(slot, kPopulating, kGranted),
               "slot 1: populating -> granted");
  EXPECT_DEATH(table_->Move(slot, kClean, kClean), "clean -> clean");
}

TEST_F(ExtentTableDeathTest, AMoveFromAnotherStateThanItIsInDies) {
  const SlotId slot = *table_->Allocate(kBirth);
  EXPECT_DEATH(table_->Move(slot, kClean, kGranted),
               "slot 1 is populating, not clean");
}

TEST_F(ExtentTableDeathTest, SlotsOutsideTheTableDie) {
  EXPECT_DEATH((void)table_->state(SlotId(0)), "slot out of range");
  EXPECT_DEATH((void)table_->state(SlotId(5)), "slot out of range");
}

TEST_F(ExtentTableDeathTest, FreeingWhatIsInUseDies) {
  const SlotId slot = *table_->Allocate(kBirth);
  table_->Move(slot, kPopulating, kClean);
  EXPECT_DEATH(table_->Free(slot, kClean), "clean -> empty");
}

TEST_F(ExtentTableDeathTest, AnExtentWithoutPagesDies) {
  EXPECT_DEATH((void)table_->Allocate({NodeId(0), k2M, PageCount(0)}),
               "1 to 2\\^32 - 1 pages");
  const SlotId slot = *table_->Allocate(kBirth);
  EXPECT_DEATH(table_->set_pages(slot, PageCount(uint64_t{1} << 32)),
               "1 to 2\\^32 - 1 pages");
}

}  // namespace
}  // namespace hugepool
