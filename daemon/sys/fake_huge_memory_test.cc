#include "daemon/sys/fake_huge_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/errno_status.h"

namespace hugepool::sys {
namespace {

constexpr NodeId kNode0{0};
constexpr NodeId kNode1{1};

class FakeHugeMemoryTest : public testing::Test {
 protected:
  FakeHugeMemoryTest() {
    kernel_.AddPages(kNode0, k2M, PageCount(8));
    kernel_.AddPages(kNode1, k2M, PageCount(4));
  }

  std::unique_ptr<HugeFile> Populated(uint64_t pages, NodeId node = kNode0) {
    auto file = *memory_.Create(k2M, PageCount(pages), node);
    EXPECT_TRUE(file->Map(node).ok());
    EXPECT_TRUE(file->Populate(Bytes(0), file->size()).ok());
    return file;
  }
  uint64_t Free(NodeId node = kNode0) {
    return kernel_.Counters(node, k2M)->free.value();
  }
  FakeHolder Grant(HugeFile& file, uid_t uid = FakeKernel::kHolderUid) {
    auto fd = file.OpenForHolder();
    EXPECT_TRUE(fd.ok()) << fd.status();
    return kernel_.AdoptHolder(*std::move(fd), uid);
  }

  FakeKernel kernel_;
  FakeHugeMemory memory_{&kernel_};
};

TEST_F(FakeHugeMemoryTest, PagesComeFromTheNodeAndGoBackWithTheFile) {
  auto file = Populated(3, kNode1);
  EXPECT_EQ(Free(kNode1), 1u);
  EXPECT_EQ(kernel_.PagesInInodes(kNode1, k2M), PageCount(3));
  EXPECT_EQ(*file->PageNodes(), std::vector<NodeId>(3, kNode1));
  EXPECT_TRUE(kernel_.CheckInvariants().ok());
  file.reset();
  EXPECT_EQ(Free(kNode1), 4u);
  EXPECT_EQ(kernel_.InodeCount(), 0u);
}

TEST_F(FakeHugeMemoryTest, UnknownPageSizeIsRefused) {
  EXPECT_EQ(ErrnoOf(memory_.Create(k1G, PageCount(1), kNode0).status()),
            ENODEV);
}

TEST_F(FakeHugeMemoryTest, PopulateKeepsWhatItGot) {
  auto file = *memory_.Create(k2M, PageCount(6), kNode1);
  ASSERT_TRUE(file->Map(kNode1).ok());
  EXPECT_EQ(file->Populate(Bytes(0), file->size()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(file->Facts()->allocated, MiB(8));
  EXPECT_EQ(Free(kNode1), 0u);
}

TEST_F(FakeHugeMemoryTest, ProbeSeesDescriptorsMappingsAndChildren) {
  auto file = Populated(2);
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
  FakeHolder holder = Grant(*file);
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  ASSERT_TRUE(holder.Map());
  holder.CloseFd();
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  {
    FakeHolder child = holder.Fork();
    holder.Exit();
    EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  }
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
}

TEST_F(FakeHugeMemoryTest, AGrantedDescriptorThatIsClosedUnadoptedEnds) {
  auto file = Populated(1);
  auto fd = file->OpenForHolder();
  ASSERT_TRUE(fd.ok());
  UniqueFd dup(fcntl(fd->get(), F_DUPFD_CLOEXEC, 0));
  fd->reset();
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  EXPECT_EQ(kernel_.HolderCount(file->inode()), 1u);
  dup.reset();
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
}

TEST_F(FakeHugeMemoryTest, AnyDupCanBeAdoptedAndTheOthersStillCount) {
  auto file = Populated(1);
  auto fd = file->OpenForHolder();
  ASSERT_TRUE(fd.ok());
  {
    FakeHolder holder =
        kernel_.AdoptHolder(UniqueFd(fcntl(fd->get(), F_DUPFD_CLOEXEC, 0)));
    EXPECT_EQ(kernel_.HolderCount(file->inode()), 1u);
  }
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  fd->reset();
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
}

TEST_F(FakeHugeMemoryTest, AnOpenBreaksTheArmedProbe) {
  auto file = Populated(1);
  ASSERT_TRUE(file->GiveInode(1000, 1000).ok());
  ASSERT_TRUE(kernel_.MayOpen(file->inode(), 1000));  // passed its check
  ASSERT_TRUE(file->TakeInodeBack().ok());
  ASSERT_EQ(file->Probe(), HolderAnswer::kFree);
  EXPECT_TRUE(file->StillArmed());
  EXPECT_FALSE(kernel_.OpenByPath(file->inode(), 1000).has_value());
  EXPECT_TRUE(file->StillArmed());
  auto late = kernel_.FinishOpen(file->inode(), 1000);
  ASSERT_TRUE(late.has_value());
  EXPECT_FALSE(file->StillArmed());
  EXPECT_EQ(file->OpenForHolder().status().code(), absl::StatusCode::kAborted);
}

TEST_F(FakeHugeMemoryTest, ReopenNeedsModeOrOwner) {
  auto file = Populated(1);
  FakeHolder holder = Grant(*file);
  EXPECT_FALSE(holder.Reopen().has_value());
  EXPECT_FALSE(holder.Chmod(0666));
  ASSERT_TRUE(file->GiveInode(holder.uid(), 100).ok());
  EXPECT_TRUE(holder.Reopen().has_value());
  EXPECT_TRUE(holder.Chmod(0666));
  EXPECT_EQ(file->Facts()->mode, 0666u);
  ASSERT_TRUE(file->TakeInodeBack().ok());
  EXPECT_EQ(file->Facts()->mode, 0600u);
  EXPECT_FALSE(holder.Reopen().has_value());
}

TEST_F(FakeHugeMemoryTest, PinnedPagesStayOutOfTheFreeList) {
  auto file = Populated(2);
  FakeHolder holder = Grant(*file);
  auto pin = holder.Pin(1);
  ASSERT_TRUE(pin.has_value());
  pin->Write(7);
  EXPECT_EQ(holder.Read(1), 7);
  holder.Exit();
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);  // no witness sees a pin
  ASSERT_TRUE(file->GiveBack().ok());
  file.reset();
  EXPECT_EQ(Free(), 7u);
  EXPECT_EQ(kernel_.PinnedOrphans(kNode0, k2M), PageCount(1));
  EXPECT_EQ(pin->Read(), 7);
  EXPECT_TRUE(kernel_.CheckInvariants().ok());
  pin.reset();
  EXPECT_EQ(Free(), 8u);
  EXPECT_TRUE(kernel_.CheckInvariants().ok());
}

TEST_F(FakeHugeMemoryTest, HolesAreFilledOrSigbusIsCounted) {
  auto file = Populated(2);
  FakeHolder holder = Grant(*file);
  ASSERT_TRUE(holder.Map());
  EXPECT_EQ(holder.Write(0, 9), FakeAccess::kOk);
  ASSERT_TRUE(holder.Punch(0));
  EXPECT_EQ(file->Facts()->allocated, MiB(2));
  EXPECT_EQ(holder.Read(0), 0);  // a fresh page
  ASSERT_TRUE(holder.Punch(0));
  kernel_.TakeOutside(kNode0, k2M, PageCount(100));
  kernel_.TakeOutside(kNode1, k2M, PageCount(100));
  EXPECT_EQ(holder.Write(0, 1), FakeAccess::kSigbusNoPage);
  EXPECT_EQ(kernel_.violations().sigbus_no_page, 1u);
  ASSERT_TRUE(file->GiveBack().ok());  // revoked
  EXPECT_EQ(holder.Write(1, 1), FakeAccess::kSigbusPastEnd);
  EXPECT_EQ(kernel_.sigbus_past_end(), 1u);
  EXPECT_EQ(kernel_.violations().sigbus_no_page, 1u);
}

TEST_F(FakeHugeMemoryTest, APageIsZeroOnlyWhenAllOfItWasZeroed) {
  auto file = Populated(1);
  {
    FakeHolder holder = Grant(*file);
    holder.Write(0, 0xA5);
  }
  const auto zero = [&](uint64_t from, uint64_t to) {
    ASSERT_TRUE(file->Zero(KiB(from), KiB(to - from), nullptr).ok());
  };
  zero(1024, 2048);
  zero(0, 512);
  EXPECT_FALSE(*file->AllZero());
  zero(512, 1024);
  EXPECT_TRUE(*file->AllZero());
  EXPECT_EQ(kernel_.violations(), FakeKernel::Violations());
}

TEST_F(FakeHugeMemoryTest, TouchingHeldMemoryIsCounted) {
  auto file = Populated(1);
  FakeHolder holder = Grant(*file);
  ASSERT_TRUE(file->Punch(Bytes(0), MiB(2)).ok());
  EXPECT_EQ(kernel_.violations().touched_while_held, 1u);
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
}

TEST_F(FakeHugeMemoryTest, SealsStopTheHolder) {
  auto file = Populated(2);
  FakeHolder holder = Grant(*file);
  ASSERT_TRUE(file->Seal({.shrink = true}).ok());
  ASSERT_TRUE(file->Seal({.shrink = true}).ok());
  EXPECT_FALSE(holder.Truncate(1));
  EXPECT_FALSE(holder.Truncate(3));
  EXPECT_FALSE(holder.AddSeals(F_SEAL_WRITE));
  EXPECT_TRUE(holder.Punch(0));
  ASSERT_TRUE(file->GiveBack().ok());
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
  EXPECT_EQ(file->Facts()->size, MiB(4));
}

TEST_F(FakeHugeMemoryTest, WatchTellsOpensClosesChangesAndTheEnd) {
  std::vector<HolderWatch::Event> events;
  FakeHolderWatch watch(&kernel_,
                        [&](const auto& event) { events.push_back(event); });
  auto file = Populated(1);
  ASSERT_TRUE(watch.Add(*file).ok());
  const InodeId inode = file->inode();
  FakeHolder holder = Grant(*file);
  FakeHolder other = *holder.Dup();
  holder.Exit();
  EXPECT_EQ(watch.Deliver(), 1u);  // a dup is left
  EXPECT_TRUE(events[0].opened);
  EXPECT_EQ(events[0].inode, inode);
  ASSERT_TRUE(other.Punch(0));
  ASSERT_TRUE(other.Punch(0));
  other.Exit();
  EXPECT_EQ(watch.Deliver(), 2u);  // the two punches are one event
  EXPECT_TRUE(events[1].changed);
  EXPECT_TRUE(events[2].closed);
  file.reset();
  EXPECT_EQ(watch.Deliver(), 2u);
  EXPECT_TRUE(events[4].deleted);
}

TEST_F(FakeHugeMemoryTest, WatchOverflowSaysOnlyThat) {
  std::vector<HolderWatch::Event> events;
  FakeHolderWatch watch(&kernel_,
                        [&](const auto& event) { events.push_back(event); });
  auto file = Populated(1);
  ASSERT_TRUE(watch.Add(*file).ok());
  FakeHolder holder = Grant(*file);
  watch.Overflow();
  EXPECT_EQ(watch.Deliver(), 1u);
  EXPECT_TRUE(events[0].overflow);
}

TEST_F(FakeHugeMemoryTest, LoweringTheTotalLeavesUsedPagesAsSurplus) {
  FakeKernelPools pools(&kernel_);
  auto file = Populated(5);
  EXPECT_EQ(*pools.SetTotal(kNode0, k2M, PageCount(0)), PageCount(5));
  EXPECT_EQ(pools.Read(kNode0, k2M)->surplus, PageCount(5));
  EXPECT_EQ(*pools.SetTotal(kNode0, k2M, PageCount(2)), PageCount(5));
  EXPECT_EQ(pools.Read(kNode0, k2M)->surplus, PageCount(3));
  EXPECT_TRUE(kernel_.CheckInvariants().ok());
  file.reset();
  EXPECT_EQ(pools.Read(kNode0, k2M)->total, PageCount(2));
  EXPECT_EQ(pools.Read(kNode0, k2M)->free, PageCount(2));
  EXPECT_EQ(pools.Read(NodeId(9), k2M).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FakeHugeMemoryTest, CallsFailWhenTold) {
  kernel_.FailCreate(EMFILE);
  EXPECT_EQ(ErrnoOf(memory_.Create(k2M, PageCount(1), kNode0).status()),
            EMFILE);
  auto file = *memory_.Create(k2M, PageCount(4), kNode0);
  kernel_.FailPolicy(EPERM);
  EXPECT_EQ(ErrnoOf(file->Map(kNode0)), EPERM);
  EXPECT_FALSE(file->mapped());
  ASSERT_TRUE(file->Map(kNode0).ok());
  kernel_.FailNextPopulateAfter(PageCount(2));
  EXPECT_EQ(file->Populate(Bytes(0), file->size()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(file->Facts()->allocated, MiB(4));
  EXPECT_TRUE(file->Populate(Bytes(0), file->size()).ok());
  kernel_.FailSeal(EBUSY);
  EXPECT_EQ(ErrnoOf(file->Seal({})), EBUSY);
  kernel_.ProbeUnknown();
  EXPECT_EQ(file->Probe(), HolderAnswer::kUnknown);
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
  memory_.set_probe_kind(ProbeKind::kNone);
  EXPECT_EQ(file->Probe(), HolderAnswer::kUnknown);
}

TEST_F(FakeHugeMemoryTest, WorkersPopulateAndZeroPartsAtOnce) {
  auto file = *memory_.Create(k2M, PageCount(8), kNode0);
  ASSERT_TRUE(file->Map(kNode0).ok());
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < 4; ++i) {
    workers.emplace_back([&file, i] {
      EXPECT_TRUE(file->Populate(MiB(4 * i), MiB(4)).ok());
      EXPECT_TRUE(file->Zero(MiB(4 * i), MiB(4), nullptr).ok());
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(file->Facts()->allocated, file->size());
}

// Ten thousand random steps of a daemon and its holders: pages are conserved,
// and a probe never says free while anybody is there.
TEST_F(FakeHugeMemoryTest, RandomStepsConserveEveryPage) {
  std::mt19937 random(20240607);
  const auto upto = [&](size_t n) { return random() % n; };
  std::vector<std::unique_ptr<HugeFile>> files;
  std::vector<FakeHolder> holders;
  std::vector<FakePin> pins;
  for (int step = 0; step < 10'000; ++step) {
    const size_t action = upto(9);
    if (action == 0 && files.size() < 6) {
      auto file = *memory_.Create(k2M, PageCount(1 + upto(3)), kNode0);
      ASSERT_TRUE(file->Map(upto(2) == 0 ? kNode0 : kNode1).ok());
      (void)file->Populate(Bytes(0), file->size());
      files.push_back(std::move(file));
    } else if (action == 1 && !files.empty()) {
      files.erase(files.begin() + static_cast<ptrdiff_t>(upto(files.size())));
    } else if (action == 2 && !files.empty() && holders.size() < 20) {
      auto fd = files[upto(files.size())]->OpenForHolder();
      if (fd.ok()) holders.push_back(kernel_.AdoptHolder(*std::move(fd)));
    } else if (action == 3 && !holders.empty()) {
      std::swap(holders[upto(holders.size())], holders.back());
      holders.pop_back();
    } else if (action == 4 && !holders.empty() && holders.size() < 20) {
      holders.push_back(holders[upto(holders.size())].Fork());
    } else if (action == 5 && !holders.empty()) {
      holders[upto(holders.size())].Write(upto(3), 1);
    } else if (action == 6 && !holders.empty()) {
      holders[upto(holders.size())].Punch(upto(3));
    } else if (action == 7 && !holders.empty() && pins.size() < 4) {
      auto pin = holders[upto(holders.size())].Pin(upto(3));
      if (pin.has_value()) pins.push_back(*std::move(pin));
    } else if (action == 8 && !pins.empty()) {
      pins.pop_back();
    }
    for (auto& file : files) {
      ASSERT_EQ(file->Probe() == HolderAnswer::kFree,
                kernel_.HolderCount(file->inode()) == 0);
    }
    ASSERT_TRUE(kernel_.CheckInvariants().ok())
        << step << ": " << kernel_.CheckInvariants();
  }
  pins.clear();
  holders.clear();
  files.clear();
  EXPECT_EQ(Free(kNode0) + Free(kNode1), 12u);
}

// --- Content ----------------------------------------------------------------

TEST_F(FakeHugeMemoryTest, ACopyIsItsSourceOnceItIsWhole) {
  auto source = Populated(2);
  FakeHolder holder = Grant(*source);
  holder.Map();
  ASSERT_EQ(holder.Write(0, 7), FakeAccess::kOk);
  ASSERT_EQ(holder.Write(1, 8), FakeAccess::kOk);
  auto copy = Populated(2);
  ASSERT_TRUE(copy->CopyFrom(*source, Bytes(0), Bytes(0), MiB(1)).ok());
  FakeHolder reader = Grant(*copy);
  reader.Map();
  EXPECT_EQ(reader.Read(0), FakeKernel::kMixed);
  EXPECT_EQ(reader.Read(1), 0);
  reader.Exit();
  ASSERT_TRUE(copy->CopyFrom(*source, MiB(1), MiB(1), MiB(3)).ok());
  FakeHolder again = Grant(*copy);
  again.Map();
  EXPECT_EQ(again.Read(0), 7);
  EXPECT_EQ(again.Read(1), 8);
  EXPECT_EQ(kernel_.violations(), FakeKernel::Violations{});
}

TEST_F(FakeHugeMemoryTest, StrayBytesAreFoundAndLostOnesReported) {
  auto file = Populated(2);
  FakeHolder holder = Grant(*file);
  holder.Map();
  ASSERT_EQ(holder.Write(1, 9), FakeAccess::kOk);
  holder.Exit();
  EXPECT_EQ(file->FindStray(Bytes(0), MiB(2))->count, 0u);
  const auto stray = file->FindStray(Bytes(0), MiB(4));
  EXPECT_EQ(stray->count, MiB(2).value());
  EXPECT_EQ(stray->first, MiB(2));
  kernel_.FailNext(FakeKernel::Op::kFindStray, EHWPOISON);
  EXPECT_EQ(file->FindStray(Bytes(0), MiB(4)).status().code(),
            absl::StatusCode::kDataLoss);
  kernel_.FailNext(FakeKernel::Op::kZero, EHWPOISON);
  EXPECT_EQ(file->Zero(Bytes(0), MiB(4), nullptr).code(),
            absl::StatusCode::kDataLoss);
  kernel_.FailNext(FakeKernel::Op::kRead, EHWPOISON);
  auto copy = Populated(2);
  EXPECT_EQ(copy->CopyFrom(*file, Bytes(0), Bytes(0), MiB(4)).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(FakeHugeMemoryTest, AHoleIsFilledWithACopyOrStaysOne) {
  auto source = Populated(2);
  FakeHolder holder = Grant(*source);
  holder.Map();
  ASSERT_EQ(holder.Write(1, 9), FakeAccess::kOk);
  auto file = *memory_.Create(k2M, PageCount(2), kNode0);
  ASSERT_TRUE(file->Map(kNode0).ok());
  auto fill = *file->StartFill();
  const std::vector<CopyPart> whole = {{source.get(), MiB(2), Bytes(0), MiB(2)}};
  kernel_.FailNext(FakeKernel::Op::kRead, EHWPOISON);
  EXPECT_EQ(fill->FillPage(Bytes(0), whole).code(),
            absl::StatusCode::kDataLoss);
  kernel_.FailNextPopulateAfter(PageCount(0));
  EXPECT_EQ(fill->FillPage(Bytes(0), whole).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
  ASSERT_TRUE(fill->FillPage(Bytes(0), whole).ok());
  EXPECT_EQ(fill->FillPage(Bytes(0), whole).code(),
            absl::StatusCode::kAlreadyExists);
  // A part of a page, zeros beside it.
  ASSERT_TRUE(
      fill->FillPage(MiB(2), {{source.get(), MiB(2), MiB(3), MiB(1)}}).ok());
  FakeHolder reader = Grant(*file);
  reader.Map();
  EXPECT_EQ(reader.Read(0), 9);
  EXPECT_EQ(reader.Read(1), FakeKernel::kMixed);
  EXPECT_EQ(kernel_.violations(), FakeKernel::Violations{});
}

}  // namespace
}  // namespace hugepool::sys
