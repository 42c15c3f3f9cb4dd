#include "daemon/reclaim/extent_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/errno_status.h"
#include "daemon/reclaim/reclaim_fixture.h"
#include "daemon/sys/testing/wrapped_file.h"

namespace hugepool {
namespace {

using enum ExtentState;
using Op = sys::FakeKernel::Op;

// Writes down the calls that go to a file, in order.
class LoggingFile : public sys::testing::WrappedFile {
 public:
  LoggingFile(std::unique_ptr<HugeFile> file, std::vector<std::string>* log)
      : WrappedFile(std::move(file)), log_(log) {}
  absl::Status Grow(Bytes b) override {
    return Log("grow"), WrappedFile::Grow(b);
  }
  absl::Status Map(NodeId n) override {
    return Log("policy"), WrappedFile::Map(n);
  }
  void Unmap() override { Log("unmap"), WrappedFile::Unmap(); }
  absl::Status Populate(Bytes o, Bytes l) override {
    return Log("populate " + std::to_string(o.value() >> 21) + "+" +
               std::to_string(l.value() >> 21)),
           WrappedFile::Populate(o, l);
  }
  absl::Status Zero(Bytes o, Bytes l, ZeroRoutine r) override {
    return Log("zero"), WrappedFile::Zero(o, l, r);
  }
  absl::StatusOr<std::vector<NodeId>> PageNodes() override {
    return Log("nodes"), WrappedFile::PageNodes();
  }
  absl::Status TakeInodeBack() override {
    return Log("inode back"), WrappedFile::TakeInodeBack();
  }
  absl::StatusOr<sys::FileFacts> Facts() override {
    return Log("facts"), WrappedFile::Facts();
  }
  sys::HolderAnswer Probe() override {
    return Log("probe"), WrappedFile::Probe();
  }
  bool StillArmed() override {
    return Log("armed?"), WrappedFile::StillArmed();
  }
  absl::Status GiveBack() override {
    return Log("give back"), WrappedFile::GiveBack();
  }

 private:
  void Log(const std::string& what) { log_->push_back(what); }
  std::vector<std::string>* const log_;
};

class LoggingMemory : public sys::HugeMemory {
 public:
  LoggingMemory(sys::HugeMemory* memory, std::vector<std::string>* log)
      : memory_(memory), log_(log) {}
  absl::StatusOr<std::unique_ptr<sys::HugeFile>> Create(PageSize s, PageCount p,
                                                        NodeId n) override {
    HP_ASSIGN_OR_RETURN(auto file, memory_->Create(s, p, n));
    return std::make_unique<LoggingFile>(std::move(file), log_);
  }
  bool CanFill(PageSize size) const override { return memory_->CanFill(size); }
  sys::ProbeKind SelfTest() override { return memory_->SelfTest(); }
  sys::ProbeKind probe_kind() const override { return memory_->probe_kind(); }
  std::string_view backend() const override { return "logging"; }

 private:
  sys::HugeMemory* const memory_;
  std::vector<std::string>* const log_;
};

class ExtentWorkerTest : public ReclaimFixture {
 protected:
  ExtentWorkerTest() : worker_(LoggingDeps()) {}
  ExtentWorker::Deps LoggingDeps() {
    ExtentWorker::Deps deps = Deps();
    deps.memory = &logging_;
    return deps;
  }
  // Does one item; what it was and what came of it, or "".
  std::string DoOne() {
    auto quick = pool_->TakeQuickWork(Now());
    if (quick) return Do(*std::move(quick));
    auto work = pool_->TakeWork(Now(), *counters_.Read(kNode, k2M));
    if (work) return Do(*std::move(work));
    return "";
  }
  std::string Do(WorkItem item) {
    log_.clear();
    const auto result = worker_.Execute(*pool_, item);
    why_ = result.why;
    item.stray = result.stray;
    const std::string what =
        std::string(ToString(item.kind)) + " " + ToString(result.outcome);
    back_ = pool_->Settle(std::move(item), result.outcome, result.why, Now())
                .back.size();
    return what;
  }
  void Fill() {
    while (!DoOne().empty()) {
    }
  }
  std::string Log() const {
    std::string out;
    for (const std::string& l : log_) out += (out.empty() ? "" : ", ") + l;
    return out;
  }
  void TearDown() override {
    EXPECT_EQ(kernel_.violations(), sys::FakeKernel::Violations{});
    const absl::Status books = pool_->CheckInvariants();
    EXPECT_TRUE(books.ok()) << books;
    EXPECT_TRUE(kernel_.CheckInvariants().ok());
  }

  std::vector<std::string> log_;
  LoggingMemory logging_{&memory_, &log_};
  ExtentWorker worker_;
  std::string why_;
  size_t back_ = 0;
};

// --- Build ------------------------------------------------------------------

TEST_F(ExtentWorkerTest, TellsHowMuchOfItIsThereWhileItIsBuilt) {
  struct InHalves : InlineEngine {
    absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                          Pace pace) override {
      const Bytes half((span.from + span.to).value() / 2);
      HP_RETURN_IF_ERROR(
          InlineEngine::Populate(file, {span.from, half, Bytes(0)}, pace));
      seen.push_back(pool->Snapshot().made);
      return InlineEngine::Populate(file, {half, span.to, Bytes(0)}, pace);
    }
    Pool* pool = nullptr;
    std::vector<PageCount> seen;
  } engine;
  engine.pool = pool_.get();
  ExtentWorker::Deps deps = LoggingDeps();
  deps.engine = &engine;
  ExtentWorker worker(deps);
  for (int i = 0; i < 2; ++i) {
    auto build = pool_->TakeWork(Now(), *counters_.Read(kNode, k2M));
    const auto result = worker.Execute(*pool_, *build);
    EXPECT_EQ(pool_->Snapshot().made, PageCount(4));
    pool_->Settle(*std::move(build), result.outcome, result.why, Now());
    EXPECT_EQ(pool_->Snapshot().made, PageCount(0));
  }
  EXPECT_EQ(engine.seen, (std::vector<PageCount>{PageCount(2), PageCount(2)}));
}

// N12: policy, then pages, then the proof.
TEST_F(ExtentWorkerTest, BuildsInOrder) {
  EXPECT_EQ(DoOne(), "build done");
  EXPECT_EQ(Log(), "policy, populate 0+4, nodes, facts, unmap");
  const SlotId slot = table_->Living()[0];
  EXPECT_EQ(table_->inode(slot), files_.Get(slot)->inode().value());
  EXPECT_TRUE(*files_.Get(slot)->AllZero());
  EXPECT_EQ(vault_.names().size(), 1u) << "stored at its birth";
  EXPECT_EQ(kernel_.PagesInInodes(kNode, k2M), PageCount(4));
}

TEST_F(ExtentWorkerTest, GrowsByTheDifferenceOnly) {
  Fill();
  {
    MutexLock lock(&pool_->mu());
    pool_->EnqueueLocked({kLease, 1, kDomain, PageCount(6), 1, PageCount(0), Bytes(0)});
  }
  while (DoOne() != "build done") {
  }
  EXPECT_EQ(Log(), "unmap, grow, policy, populate 4+2, nodes, facts, unmap");
}

TEST_F(ExtentWorkerTest, WhatFailsIsGivenBackEntirely) {
  struct Case {
    Op op;
    int error;
    const char* outcome;
  };
  for (const Case& c : {Case{Op::kCreate, ENODEV, "build failed"},
                        Case{Op::kCreate, ENOMEM, "build no-pages"},
                        Case{Op::kWatch, ENOSPC, "build no-pages"},
                        Case{Op::kPolicy, EPERM, "build failed"},
                        Case{Op::kMap, ENOMEM, "build no-pages"},
                        Case{Op::kPageNodes, EACCES, "build failed"},
                        Case{Op::kFacts, EIO, "build failed"}}) {
    kernel_.FailNext(c.op, c.error);
    EXPECT_EQ(DoOne(), c.outcome) << static_cast<int>(c.op);
    EXPECT_NE(why_, "");
    EXPECT_EQ(DoOne(), "retire done");
    EXPECT_EQ(kernel_.InodeCount(), 0u);
    EXPECT_TRUE(vault_.names().empty());
    EXPECT_EQ(pool_->Snapshot().charged, PageCount(0));
    clock_.Advance(absl::Seconds(10));
  }
}

TEST_F(ExtentWorkerTest, AFullWatchSaysWhichLimit) {
  kernel_.FailNext(Op::kWatch, ENOSPC);
  (void)DoOne();
  EXPECT_NE(why_.find("fs.inotify.max_user_watches"), std::string::npos)
      << why_;
  (void)DoOne();
}

// K3: a populate that stops half-way keeps what it got until it is given back.
TEST_F(ExtentWorkerTest, APartialPopulateIsGivenBack) {
  kernel_.FailNextPopulateAfter(PageCount(2));
  EXPECT_EQ(DoOne(), "build no-pages");
  EXPECT_EQ(kernel_.PagesInInodes(kNode, k2M), PageCount(2));
  EXPECT_EQ(DoOne(), "retire done");
  EXPECT_EQ(kernel_.Counters(kNode, k2M)->free, PageCount(8));
}

// K3: another program takes pages while an extent is being populated. What the
// extent got goes back, and what is left is used for smaller ones.
TEST_F(ExtentWorkerTest, PagesThatOthersTakeMeanwhileAreNotLost) {
  struct Raced : InlineEngine {
    absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                          Pace pace) override {
      if (meanwhile) std::exchange(meanwhile, nullptr)();
      return InlineEngine::Populate(file, span, pace);
    }
    std::function<void()> meanwhile;
  } engine;
  PoolConfig c;
  c.shapes = {PageCount(4), PageCount(1)};
  Make(c);
  engine.meanwhile = [this] {
    EXPECT_EQ(kernel_.TakeOutside(kNode, k2M, PageCount(14)), PageCount(14));
  };
  ExtentWorker::Deps deps = LoggingDeps();
  deps.engine = &engine;
  ExtentWorker worker(deps);
  auto build = pool_->TakeWork(Now(), *counters_.Read(kNode, k2M));
  ASSERT_TRUE(build.has_value());
  const auto result = worker.Execute(*pool_, *build);
  EXPECT_EQ(result.outcome, WorkOutcome::kNoPages);
  EXPECT_EQ(kernel_.PagesInInodes(kNode, k2M), PageCount(2)) << "partial";
  pool_->Settle(*std::move(build), result.outcome, result.why, Now());
  EXPECT_EQ(DoOne(), "retire done");
  EXPECT_EQ(kernel_.PagesInInodes(kNode, k2M), PageCount(0));
  EXPECT_EQ(kernel_.Counters(kNode, k2M)->free, PageCount(2));
  clock_.Advance(absl::Seconds(1));
  Fill();
  EXPECT_EQ(pool_->Snapshot().clean, (ShapeCounts{{PageCount(1), 2}}));
  EXPECT_EQ(kernel_.Counters(kNode, k2M)->free, PageCount(0));
  kernel_.ReturnOutside(kNode, k2M, PageCount(14));
  Fill();
  EXPECT_EQ(pool_->Snapshot().charged, PageCount(8)) << "nothing was lost";
}

// --- Return -----------------------------------------------------------------------

TEST_F(ExtentWorkerTest, AReturnIsProbedInTheOrderThatTheDesignArgues) {
  Fill();
  const SlotId slot = Take();
  { sys::FakeHolder holder = Hold(slot); }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe done");
  EXPECT_EQ(Log(), "inode back, probe, facts");
  EXPECT_EQ(back_, 1u);
  EXPECT_EQ(DoOne(), "retire done");
  EXPECT_EQ(Log(), "give back");
  EXPECT_EQ(files_.Get(slot), nullptr);
  EXPECT_EQ(vault_.names().size(), 1u);
}

TEST_F(ExtentWorkerTest, BusyWhileAnybodyHoldsIt) {
  Fill();
  const SlotId slot = Take();
  sys::FakeHolder holder = Hold(slot);
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe busy");
  EXPECT_EQ(Log(), "inode back, probe") << "held memory is not looked into";
  EXPECT_EQ(State(slot), kReturning);
  kernel_.ProbeUnknown();
  holder.CloseFd();
  watch_.Deliver();
  clock_.Advance(absl::Minutes(2));
  EXPECT_EQ(DoOne(), "probe unknown");
  EXPECT_EQ(State(slot), kReturning);
}

TEST_F(ExtentWorkerTest, ALivingLeaseIsAskedBeforeItsInodeIsTaken) {
  Fill();
  const SlotId slot = Take(false, /*memory=*/true);
  sys::FakeHolder holder = Hold(slot, /*reopenable=*/true);
  EXPECT_EQ(DoOne(), "probe busy");
  EXPECT_EQ(Log(), "probe");
  EXPECT_TRUE(holder.Reopen().has_value());
  holder.Exit();
  watch_.Deliver();
  EXPECT_EQ(DoOne(), "probe done");
  EXPECT_EQ(Log(), "probe, inode back, probe, facts");
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(ExtentWorkerTest, AModeThatAHolderSetIsTakenBack) {
  Fill();
  const SlotId slot = Take();
  sys::FakeHolder holder = Hold(slot, /*reopenable=*/true);
  EXPECT_TRUE(holder.Chmod(0666));
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe busy");
  EXPECT_EQ(files_.Get(slot)->Facts()->mode, 0600u);
  EXPECT_FALSE(holder.Reopen().has_value());
}

TEST_F(ExtentWorkerTest, AnInodeThatCannotBeTakenBackIsNotTrusted) {
  Fill();
  const SlotId slot = Take(/*in_place=*/true);
  { sys::FakeHolder holder = Hold(slot); }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  kernel_.FailNext(Op::kChown, EPERM);
  EXPECT_EQ(DoOne(), "probe failed");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(DoOne(), "probe done");
  EXPECT_EQ(State(slot), kRetiring);
}

TEST_F(ExtentWorkerTest, HolesAndSizesThatChangedAreDamage) {
  for (bool truncate : {false, true}) {
    Fill();
    const SlotId slot = Take(/*in_place=*/true);
    {
      sys::FakeHolder holder = Hold(slot);
      EXPECT_TRUE(truncate ? holder.Truncate(3) : holder.Punch(1));
    }
    watch_.Deliver();
    pool_->Return(slot, kLease, true);
    EXPECT_EQ(DoOne(), "probe damaged");
    EXPECT_EQ(why_, truncate
                        ? "came back with 6 MiB in 6 MiB instead of 8 MiB in 8 MiB"
                        : "came back with 6 MiB in 8 MiB instead of 8 MiB in 8 MiB");
    EXPECT_EQ(back_, 1u);
    EXPECT_EQ(State(slot), kRetiring);
  }
}

TEST_F(ExtentWorkerTest, APageFromAnotherNodeIsDamageWhereItWouldBeReused) {
  Fill();
  const SlotId slot = Take(/*in_place=*/true);
  {
    sys::FakeHolder holder = Hold(slot);
    EXPECT_TRUE(holder.Punch(2));
    kernel_.TakeOutside(kNode, k2M, PageCount(8));  // it comes from elsewhere
    EXPECT_EQ(holder.Write(2, 1), sys::FakeAccess::kOk);
  }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe damaged");
  EXPECT_EQ(why_, "page 2 is on node 2 instead of node 1");
  EXPECT_EQ(State(slot), kRetiring);
}

// --- Clearing ---------------------------------------------------------------

TEST_F(ExtentWorkerTest, ClearsInPlaceAndLeavesTheProbeArmed) {
  Fill();
  const SlotId slot = Take(/*in_place=*/true);
  {
    sys::FakeHolder holder = Hold(slot);
    for (uint64_t p = 0; p < 4; ++p) holder.Write(p, 0xC3);
  }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe done");
  EXPECT_EQ(Log(), "inode back, probe, facts, policy, nodes");
  EXPECT_EQ(State(slot), kDirty);
  EXPECT_EQ(DoOne(), "clear done");
  EXPECT_EQ(Log(), "zero, armed?, unmap");
  EXPECT_EQ(State(slot), kClean);
  EXPECT_TRUE(*files_.Get(slot)->AllZero());
  EXPECT_TRUE(files_.Get(slot)->StillArmed());
}

TEST_F(ExtentWorkerTest, AnOpeningWhileItWasClearedRetires) {
  Fill();
  const SlotId slot = Take(/*in_place=*/true);
  sys::InodeId inode;
  {
    sys::FakeHolder holder = Hold(slot);
    inode = holder.inode();
  }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe done");
  { auto thief = kernel_.FinishOpen(inode, sys::FakeKernel::kHolderUid); }
  EXPECT_EQ(DoOne(), "clear failed");
  EXPECT_EQ(State(slot), kRetiring);
}

// --- Letting go -------------------------------------------------------------

class LetGoWorkerTest : public ExtentWorkerTest {
 protected:
  LetGoWorkerTest() {
    PoolConfig c;
    c.let_go = true;
    Make(c);
    memory_.set_probe_kind(sys::ProbeKind::kNone);
    Fill();
  }
};

TEST_F(LetGoWorkerTest, NothingOfOursKeepsTheMemoryAlive) {
  const size_t stored = vault_.names().size();
  const SlotId slot = Take();
  sys::FakeHolder holder = Hold(slot);
  EXPECT_EQ(DoOne(), "let-go done");
  EXPECT_EQ(files_.Get(slot), nullptr);
  EXPECT_EQ(vault_.names().size(), stored - 1) << "its dup is ours as well";
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe busy");
  holder.Exit();
  EXPECT_GT(watch_.Deliver(), 0u);
  EXPECT_EQ(DoOne(), "probe done");
  EXPECT_EQ(back_, 1u);
  EXPECT_EQ(DoOne(), "retire done");
  EXPECT_EQ(State(slot), kEmpty);
  EXPECT_EQ(DoOne(), "build done") << "the slot serves again";
}

// --- Before a grant, and now and then --------------------------------------------

TEST_F(ExtentWorkerTest, ACopyHasWhatItsSourceHas) {
  Fill();
  const SlotId source = Take();
  sys::FakeHolder holder = Hold(source);
  for (uint64_t p = 0; p < 4; ++p) {
    ASSERT_EQ(holder.Write(p, static_cast<uint8_t>(10 + p)),
              sys::FakeAccess::kOk);
  }
  const SlotId slot = Take();
  Preparation copy;
  copy.verify = true;
  copy.copy = {{source, MiB(2), Bytes(0), MiB(6)}};
  pool_->Prepare(slot, copy);
  EXPECT_EQ(DoOne(), "verify done");
  EXPECT_EQ(DoOne(), "copy done");
  sys::FakeHolder reader = Hold(slot);
  EXPECT_EQ(reader.Read(0), 11);
  EXPECT_EQ(reader.Read(2), 13);
  EXPECT_EQ(reader.Read(3), 0);
}

TEST_F(ExtentWorkerTest, ASourceThatCannotBeReadFailsTheCopyOnly) {
  Fill();
  const SlotId source = Take();
  sys::FakeHolder holder = Hold(source);
  const SlotId slot = Take();
  for (const uint64_t pages : {4, 2}) {  // poisoned, then cut
    ASSERT_TRUE(holder.Truncate(pages));
    if (pages == 4) kernel_.FailNext(Op::kRead, EHWPOISON);
    Preparation copy;
    copy.copy = {{source, Bytes(0), Bytes(0), MiB(8)}};
    pool_->Prepare(slot, copy);
    EXPECT_EQ(DoOne(), "copy failed");
    EXPECT_EQ(State(slot), kGranted);
  }
}

TEST_F(ExtentWorkerTest, VerifyRetiresWhatIsNotZeroOrLost) {
  Fill();
  // What must never happen: a byte in clean memory.
  {
    sys::FakeHolder ghost =
        *kernel_.FinishOpen(files_.Get(SlotId(1))->inode(), 0);
    ASSERT_EQ(ghost.Write(1, 0xA5), sys::FakeAccess::kOk);
  }
  pool_->StartVerify(1);
  EXPECT_EQ(DoOne(), "verify damaged");
  EXPECT_EQ(why_, "2097152 bytes are not zero, the first at 2097152");
  // N32: a page that answers with SIGBUS takes its extent away, and no more.
  kernel_.FailNext(Op::kFindStray, EHWPOISON);
  EXPECT_EQ(DoOne(), "verify failed");
  EXPECT_EQ(DoOne(), "retire done");
  EXPECT_EQ(DoOne(), "build done");
  EXPECT_EQ(DoOne(), "retire done");
  Fill();
  EXPECT_EQ(pool_->FinishVerify(1)->stray, MiB(2).value());
}

// N32: the same for what is cleared in place.
TEST_F(ExtentWorkerTest, N32LostMemoryIsRetiredWhenItIsCleared) {
  Fill();
  const SlotId slot = Take(/*in_place=*/true);
  {
    sys::FakeHolder holder = Hold(slot);
    holder.Exit();
  }
  watch_.Deliver();
  pool_->Return(slot, kLease, true);
  EXPECT_EQ(DoOne(), "probe done");
  ASSERT_EQ(State(slot), kDirty);
  kernel_.FailNext(Op::kZero, EHWPOISON);
  EXPECT_EQ(DoOne(), "clear failed");
  EXPECT_EQ(DoOne(), "retire done");
  EXPECT_EQ(State(slot), kEmpty);
}

}  // namespace
}  // namespace hugepool
