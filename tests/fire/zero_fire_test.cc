// Zero proof under fire: extents that were full of something are cleared in
// place while another thread hurries, pauses and cancels the clearing at
// random, and memory is lost at random. Whatever the pool calls clean
// afterwards is zero, every byte of it; 10,000 times on the model of the
// kernel, and on real pages.
//
//   zero_fire_test [--rounds=N] [--seed=N] [--plant=DEFECT]
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/testing/sanitized.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/plant.h"
#include "daemon/clear/node_workers.h"
#include "daemon/extent/extent_files.h"
#include "daemon/pool/pool.h"
#include "daemon/reclaim/extent_worker.h"
#include "daemon/sys/fake_huge_memory.h"
#include "daemon/sys/fd_vault.h"
#include "daemon/sys/real_huge_memory.h"
#include "daemon/sys/sched_class.h"
#include "daemon/sys/testing/reserve_pages.h"

namespace hugepool {
namespace {

// A sanitizer makes each five times as long and finds what it finds early.
int rounds = testing::kSanitized ? 2'000 : 10'000;
uint64_t seed = 1;

constexpr NodeId kNode{0};
constexpr DomainId kDomain{1};
constexpr LeaseId kLease{7};
constexpr uint64_t kMostPages = 3;
constexpr int kFull = 0xA5;

// Nothing is told: the pool is, by hand.
class SilentWatch : public sys::HolderWatch {
 public:
  absl::Status Add(sys::HugeFile&) override { return absl::OkStatus(); }
  void Remove(sys::InodeId) override {}
};

// The engine of a round, in the place of one that lives as long as the daemon.
class EngineOfTheRound : public Engine {
 public:
  absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                        Pace pace) override {
    return now->Populate(file, span, pace);
  }
  absl::Status Zero(sys::HugeFile& file, const FileSpan& span,
                    Pace pace) override {
    return now->Zero(file, span, pace);
  }
  absl::Status Copy(sys::HugeFile& file, const std::vector<CopyPart>& parts,
                    Bytes target, Pace pace) override {
    return now->Copy(file, parts, target, pace);
  }
  absl::Status Fill(sys::HugeFile& file, const std::vector<CopyPart>& parts,
                    Bytes target, Pace pace) override {
    return now->Fill(file, parts, target, pace);
  }
  absl::StatusOr<sys::HugeFile::Stray> Verify(sys::HugeFile& file,
                                              const FileSpan& span,
                                              Pace pace) override {
    return now->Verify(file, span, pace);
  }
  Engine* now = nullptr;
};

class ZeroFireTest : public ::testing::Test {
 protected:
  // Everything above the memory.
  void Make(sys::HugeMemory* memory) {
    PoolConfig config;
    config.node = kNode;
    config.target = config.high = PageCount(kMostPages);
    config.shapes = {PageCount(kMostPages), PageCount(2), PageCount(1)};
    table_ = *ExtentTable::Create(64);
    files_ = std::make_unique<ExtentFiles>(64);
    pool_ = std::make_unique<Pool>(config, table_.get());
    worker_ = std::make_unique<ExtentWorker>(
        ExtentWorker::Deps{memory, &watch_, &vault_, files_.get(), &news_,
                           &engine_, /*share_page_tables=*/true});
  }
  // Work until there is none, without fire.
  void Settle() {
    InlineEngine calm;
    NodeWorkers workers({.threads = 1});
    engine_.now = real_ ? static_cast<Engine*>(&workers) : &calm;
    while (Do(pool_->TakeQuickWork(Now())) ||
           Do(pool_->TakeWork(Now(), std::nullopt))) {
    }
  }
  bool Do(std::optional<WorkItem> item) {
    if (!item) return false;
    const auto result = worker_->Execute(*pool_, *item);
    EXPECT_EQ(result.outcome, WorkOutcome::kDone) << result.why;
    (void)pool_->Settle(*std::move(item), result.outcome, result.why, Now());
    return result.outcome == WorkOutcome::kDone;
  }
  absl::Time Now() const { return clock_.Now(); }

  // Some extent, full of kFull, given back and on its way to be cleared.
  SlotId Returned(std::mt19937_64& random) {
    GrantTerms terms;
    terms.lease = kLease;
    terms.domain = kDomain;
    terms.in_place = true;
    SlotId slot;
    {
      MutexLock lock(&pool_->mu());
      const ShapeCounts usable = pool_->UsableLocked(terms);
      auto it = usable.begin();
      std::advance(it, random() % usable.size());
      slot = pool_->TakeLocked({it->first}, terms, 1, true).front();
    }
    sys::HugeFile& file = *files_->Get(slot);
    EXPECT_TRUE(file.Seal({}).ok());
    UniqueFd fd = *file.OpenForHolder();
    pool_->Held(slot);
    Fill(std::move(fd), file.size());
    pool_->Tell(table_->id(slot), {.opened = true, .closed = true});
    pool_->Return(slot, kLease, true);
    Do(pool_->TakeQuickWork(Now()));  // the probe
    return slot;
  }
  void Fill(UniqueFd fd, Bytes size) {
    if (!real_) {
      sys::FakeHolder holder = kernel_.AdoptHolder(std::move(fd));
      for (uint64_t p = 0; p < k2M.Floor(size).value(); ++p) {
        EXPECT_EQ(holder.Write(p, kFull), sys::FakeAccess::kOk);
      }
      return;
    }
    void* const map = mmap(nullptr, size.value(), PROT_READ | PROT_WRITE,
                           MAP_SHARED, fd.get(), 0);
    ASSERT_NE(map, MAP_FAILED) << strerror(errno);
    memset(map, kFull, size.value());
    munmap(map, size.value());
  }

  // Clears one extent under fire; checks what the pool calls clean.
  void Round(std::mt19937_64& random, sys::SchedClass* sched) {
    const SlotId slot = Returned(random);
    ASSERT_EQ(table_->state(slot), ExtentState::kDirty);
    NodeWorkers workers({.threads = static_cast<int>(1 + random() % 2),
                         .bandwidth = random() % 2 == 0
                                          ? std::nullopt
                                          : std::optional<Bytes>(GiB(1000)),
                         .sched = random() % 2 == 0 ? sched : nullptr});
    engine_.now = &workers;
    if (!real_ && random() % 4 == 0) {
      kernel_.FailNext(sys::FakeKernel::Op::kZero, EHWPOISON, random() % 6);
    }
    auto clear = pool_->TakeWork(Now(), std::nullopt);
    ASSERT_EQ(clear->kind, WorkKind::kClear);
    const uint64_t first = random() % spins_, second = random() % spins_;
    const uint64_t acts = random();
    std::thread other([&workers, first, second, acts] {
      const auto spin = [](uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) {
          std::atomic_signal_fence(std::memory_order_seq_cst);
        }
      };
      spin(first);
      if (acts & 1) workers.SetBandwidth(MiB(1));  // a pause
      if (acts & 2) workers.Hurry();
      spin(second);
      workers.SetBandwidth(std::nullopt);
      if (acts & 12) workers.Cancel();
    });
    const auto result = worker_->Execute(*pool_, *clear);
    other.join();
    kernel_.FailNext(sys::FakeKernel::Op::kZero, 0, 0, 0);  // was not used
    (void)pool_->Settle(*std::move(clear), result.outcome, result.why, Now());
    if (table_->state(slot) == ExtentState::kClean) {
      ++clean_;
      ASSERT_TRUE(*files_->Get(slot)->AllZero())
          << "an extent is called clean and is not";
    } else {
      ++given_up_;
      ASSERT_EQ(table_->state(slot), ExtentState::kRetiring);
      ASSERT_NE(result.outcome, WorkOutcome::kDone);
    }
    Settle();
  }
  void Fire(sys::SchedClass* sched) {
    std::mt19937_64 random(seed);
    ASSERT_NO_FATAL_FAILURE(Settle());
    for (int round = 0; round < rounds; ++round) {
      Round(random, sched);
      if (HasFailure()) {
        FAIL() << "round " << round << " of seed " << seed;
      }
      ASSERT_TRUE(pool_->CheckInvariants().ok());
    }
    std::printf("%d rounds: %d clean and zero, %d given up\n", rounds, clean_,
                given_up_);
    // Both happened, or this shows nothing.
    EXPECT_GT(clean_, rounds / 20);
    EXPECT_GT(given_up_, rounds / 20);
  }

  FakeClock clock_;
  sys::FakeKernel kernel_;
  SilentWatch watch_;
  sys::NoVault vault_;
  HolderNews news_{[](const Pool&) {}};
  EngineOfTheRound engine_;
  bool real_ = false;
  uint64_t spins_ = 20'000;
  int clean_ = 0;
  int given_up_ = 0;
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<ExtentFiles> files_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<ExtentWorker> worker_;
};

TEST_F(ZeroFireTest, OnTheFake) {
  kernel_.AddPages(kNode, k2M, PageCount(kMostPages));
  sys::FakeHugeMemory memory(&kernel_);
  Make(&memory);
  Fire(nullptr);
  EXPECT_EQ(kernel_.violations(), sys::FakeKernel::Violations{});
}

TEST_F(ZeroFireTest, OnRealPages) {
  auto pages =
      sys::testing::ReservedPages::Reserve(k2M, PageCount(kMostPages), kNode);
  if (!pages.ok()) GTEST_SKIP() << "no huge pages: " << pages.status();
  real_ = true;
  spins_ = 150'000;
  sys::RealHugeMemory memory(sys::Backend::kHugetlb);
  ASSERT_EQ(memory.SelfTest(), sys::ProbeKind::kLease);
  sys::LinuxSchedClass sched;
  Make(&memory);
  Fire(sys::CanLeaveIdleClass(sched).ok() ? &sched : nullptr);
  worker_.reset();
  files_.reset();  // before the pages are given back
}

}  // namespace
}  // namespace hugepool

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--rounds=")) {
      hugepool::rounds = std::atoi(argv[i] + 9);
    } else if (arg.starts_with("--seed=")) {
      hugepool::seed = std::strtoull(argv[i] + 7, nullptr, 10);
    } else if (arg.starts_with("--plant=")) {
      const absl::Status planted = hugepool::PlantDefect(arg.substr(8));
      if (!planted.ok()) {
        std::fprintf(stderr, "%s\n", planted.ToString().c_str());
        return 2;
      }
    }
  }
  return RUN_ALL_TESTS();
}
