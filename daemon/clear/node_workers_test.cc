#include "daemon/clear/node_workers.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/sys/fake_huge_memory.h"
#include "daemon/sys/fake_pressure.h"
#include "daemon/sys/testing/wrapped_file.h"
#include "gtest/gtest.h"

namespace hugepool {
namespace {

constexpr NodeId kNode(0);

class NodeWorkersTest : public testing::TestWithParam<int> {
 protected:
  NodeWorkersTest() { kernel_.AddPages(kNode, k2M, PageCount(512)); }
  std::unique_ptr<sys::HugeFile> File(uint64_t pages) {
    auto file = memory_.Create(k2M, PageCount(pages), kNode);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Map(kNode).ok());
    return *std::move(file);
  }
  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
};

TEST_P(NodeWorkersTest, PopulatesEveryPage) {
  NodeWorkers workers({.threads = GetParam()});
  for (uint64_t pages : {1, 15, 16, 17, 255, 300}) {
    auto file = File(pages);
    ASSERT_TRUE(
        workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
    EXPECT_EQ(file->Facts()->allocated, file->size()) << pages;
  }
}

TEST_P(NodeWorkersTest, ZeroesEveryByteAndOnlyTheSpan) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
  {
    auto holder = kernel_.AdoptHolder(*file->OpenForHolder());
    for (uint64_t p = 0; p < 40; ++p) holder.Write(p, 0xA5);
  }
  ASSERT_TRUE(workers.Zero(*file, {Bytes(0), MiB(78)}, Pace::kUrgent).ok());
  EXPECT_FALSE(*file->AllZero());  // the last page was not in the span
  ASSERT_TRUE(workers.Zero(*file, {MiB(78), file->size()}, Pace::kUrgent).ok());
  EXPECT_TRUE(*file->AllZero());
}

TEST_P(NodeWorkersTest, CopiesFromSeveralSources) {
  NodeWorkers workers({.threads = GetParam()});
  auto first = File(20);
  auto second = File(30);
  auto copy = File(40);
  for (auto* file : {&first, &second, &copy}) {
    ASSERT_TRUE(
        workers.Populate(**file, {Bytes(0), (*file)->size()}, Pace::kUrgent)
            .ok());
  }
  auto one = kernel_.AdoptHolder(*first->OpenForHolder());
  auto two = kernel_.AdoptHolder(*second->OpenForHolder());
  for (uint64_t p = 0; p < 20; ++p) one.Write(p, static_cast<uint8_t>(1 + p));
  for (uint64_t p = 0; p < 30; ++p) two.Write(p, static_cast<uint8_t>(100 + p));
  // The last 15 pages of one, the first 25 of the other.
  const std::vector<CopyPart> parts = {
      {first.get(), MiB(10), Bytes(0), MiB(30)},
      {second.get(), Bytes(0), MiB(30), MiB(50)}};
  ASSERT_TRUE(workers.Copy(*copy, parts, MiB(33), Pace::kUrgent).ok());
  auto reader = kernel_.AdoptHolder(*copy->OpenForHolder());
  for (uint64_t p = 0; p < 40; ++p) {
    EXPECT_EQ(reader.Read(p), p < 15 ? 6 + p : 100 + p - 15) << p;
  }
}

TEST_P(NodeWorkersTest, ACopyOfWhatCannotBeReadFails) {
  NodeWorkers workers({.threads = GetParam()});
  auto source = File(4);
  auto copy = File(40);
  ASSERT_TRUE(
      workers.Populate(*source, {Bytes(0), MiB(8)}, Pace::kUrgent).ok());
  ASSERT_TRUE(workers.Populate(*copy, {Bytes(0), MiB(80)}, Pace::kUrgent).ok());
  EXPECT_EQ(workers
                .Copy(*copy, {{source.get(), Bytes(0), Bytes(0), MiB(80)}},
                      Bytes(0), Pace::kUrgent)
                .code(),
            absl::StatusCode::kDataLoss);
}

TEST_P(NodeWorkersTest, FillsHolesWithCopiesAndZeros) {
  NodeWorkers workers({.threads = GetParam()});
  auto source = File(20);
  ASSERT_TRUE(
      workers.Populate(*source, {Bytes(0), MiB(40)}, Pace::kUrgent).ok());
  auto holder = kernel_.AdoptHolder(*source->OpenForHolder());
  for (uint64_t p = 0; p < 20; ++p) holder.Write(p, static_cast<uint8_t>(1 + p));
  auto copy = File(40);
  const std::vector<CopyPart> parts = {
      {source.get(), MiB(10), Bytes(0), MiB(30)},
      {source.get(), Bytes(0), MiB(30), MiB(40)}};
  EXPECT_TRUE(workers.FillsFaster());
  ASSERT_TRUE(workers.Fill(*copy, parts, MiB(33), Pace::kUrgent).ok());
  EXPECT_EQ(copy->Facts()->allocated, MiB(80));
  auto reader = kernel_.AdoptHolder(*copy->OpenForHolder());
  for (uint64_t p = 0; p < 40; ++p) {
    EXPECT_EQ(reader.Read(p), p < 15 ? 6 + p : p < 35 ? 1 + p - 15 : 0) << p;
  }
  EXPECT_EQ(kernel_.violations(), sys::FakeKernel::Violations{});
}

TEST_P(NodeWorkersTest, AFillWithoutPagesFails) {
  NodeWorkers workers({.threads = GetParam()});
  auto copy = File(40);
  kernel_.FailNextPopulateAfter(PageCount(17));
  EXPECT_EQ(workers.Fill(*copy, {}, Bytes(0), Pace::kUrgent).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_LT(copy->Facts()->allocated, MiB(80));
}

// A file on which each kind of work takes as long as it is told, a page.
class TimedFile : public sys::testing::WrappedFile {
 public:
  struct Times {
    FakeClock* clock;
    absl::Duration populate;
    absl::Duration copy;
    absl::Duration fill;
  };
  TimedFile(std::unique_ptr<sys::HugeFile> file, const Times& times)
      : WrappedFile(std::move(file)), times_(times) {}
  absl::Status Populate(Bytes offset, Bytes length) override {
    Pass(times_.populate, length);
    return WrappedFile::Populate(offset, length);
  }
  absl::Status CopyFrom(sys::HugeFile& source, Bytes from, Bytes offset,
                        Bytes length) override {
    Pass(times_.copy, length);
    return WrappedFile::CopyFrom(source, from, offset, length);
  }
  absl::StatusOr<std::unique_ptr<sys::HugeFill>> StartFill() override {
    auto fill = WrappedFile::StartFill();
    if (!fill.ok()) return fill.status();
    return std::make_unique<TimedFill>(*std::move(fill), *this);
  }

 private:
  class TimedFill : public sys::HugeFill {
   public:
    TimedFill(std::unique_ptr<sys::HugeFill> fill, const TimedFile& file)
        : fill_(std::move(fill)), file_(file) {}
    absl::Status FillPage(Bytes offset,
                          const std::vector<CopyPart>& parts) override {
      file_.Pass(file_.times_.fill, MiB(2));
      return fill_->FillPage(offset, parts);
    }

   private:
    const std::unique_ptr<sys::HugeFill> fill_;
    const TimedFile& file_;
  };
  void Pass(absl::Duration a_page, Bytes length) const {
    const double pages = static_cast<double>(length.value()) /
                         static_cast<double>(MiB(2).value());
    times_.clock->Advance(a_page * pages);
  }

  const Times times_;
};

TEST_P(NodeWorkersTest, FillingIsGivenUpWhereItIsSlower) {
  FakeClock clock;
  for (const bool faster : {true, false}) {
    NodeWorkers workers({.threads = GetParam(), .clock = &clock});
    const TimedFile::Times times = {&clock, absl::Microseconds(200),
                                    absl::Microseconds(150),
                                    absl::Microseconds(faster ? 340 : 360)};
    auto source = File(128);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(workers.FillsFaster());
      TimedFile made(File(128), times);
      ASSERT_TRUE(
          workers.Populate(made, {Bytes(0), MiB(256)}, Pace::kUrgent).ok());
      ASSERT_TRUE(workers
                      .Copy(made, {{source.get(), Bytes(0), Bytes(0), MiB(256)}},
                            Bytes(0), Pace::kUrgent)
                      .ok());
    }
    for (int i = 0; i < 5; ++i) {
      TimedFile filled(File(128), times);
      ASSERT_TRUE(
          workers.Fill(filled, {}, Bytes(0), Pace::kUrgent).ok());
    }
    EXPECT_EQ(workers.FillsFaster(), faster);
  }
}

TEST_P(NodeWorkersTest, VerifyFindsWhatIsNotZero) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(40);
  const FileSpan all = {Bytes(0), file->size()};
  ASSERT_TRUE(workers.Populate(*file, all, Pace::kUrgent).ok());
  EXPECT_EQ(workers.Verify(*file, all, Pace::kBackground)->count, 0u);
  {
    auto holder = kernel_.AdoptHolder(*file->OpenForHolder());
    holder.Write(17, 1);
    holder.Write(30, 1);
  }
  auto stray = workers.Verify(*file, all, Pace::kBackground);
  EXPECT_EQ(stray->count, MiB(4).value());
  EXPECT_EQ(stray->first, MiB(34));
  EXPECT_EQ(workers.Verify(*file, {MiB(36), MiB(60)}, Pace::kUrgent)->count,
            0u);
  kernel_.FailNext(sys::FakeKernel::Op::kFindStray, EHWPOISON, 3);
  EXPECT_EQ(workers.Verify(*file, all, Pace::kUrgent).status().code(),
            absl::StatusCode::kDataLoss);
}

// Notes where it is zeroed, in order.
class OrderedFile : public sys::testing::WrappedFile {
 public:
  using WrappedFile::WrappedFile;
  absl::Status Zero(Bytes offset, Bytes length, ZeroRoutine routine) override {
    spans.emplace_back(offset, length);
    plain.push_back(routine == PlainStores().zero);
    return WrappedFile::Zero(offset, length, routine);
  }
  std::vector<std::pair<Bytes, Bytes>> spans;
  std::vector<bool> plain;
};

TEST(NodeWorkersTarget, IsZeroedLastAndLeftInTheCaches) {
  sys::FakeKernel kernel;
  kernel.AddPages(kNode, k2M, PageCount(8));
  sys::FakeHugeMemory memory(&kernel);
  StoreRoutine streaming = PlainStores();
  streaming.zero = [](std::byte*, size_t) {};
  NodeWorkers workers({.stores = &streaming});
  const Bytes pages_8 = MiB(16);
  for (const Bytes target : {Bytes(0), Bytes(5), MiB(5) + KiB(900), MiB(7),
                             pages_8 - Bytes(1), GiB(1)}) {
    OrderedFile file(*memory.Create(k2M, PageCount(8), kNode));
    ASSERT_TRUE(file.Map(kNode).ok());
    ASSERT_TRUE(file.Populate(Bytes(0), pages_8).ok());
    ASSERT_TRUE(
        workers.Zero(file, {Bytes(0), pages_8, target}, Pace::kUrgent).ok());
    const auto [offset, length] = file.spans.back();
    const Bytes inside = std::min(target, pages_8 - Bytes(1));
    EXPECT_LE(offset, inside);
    EXPECT_GT(offset + length, inside);
    EXPECT_EQ(length, KiB(256));
    for (size_t i = 0; i < file.plain.size(); ++i) {
      EXPECT_EQ(file.plain[i], i + 1 == file.plain.size()) << i;
    }
    Bytes sum;
    for (const auto& span : file.spans) sum += span.second;
    EXPECT_EQ(sum, pages_8);
  }
}

TEST_P(NodeWorkersTest, ReportsTheFailureOfAnyPiece) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(300);
  kernel_.FailNextPopulateAfter(PageCount(100));
  EXPECT_EQ(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).code(),
      absl::StatusCode::kResourceExhausted);
  // The workers are fit for the next job.
  EXPECT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
}

TEST_P(NodeWorkersTest, AnEmptySpanIsDone) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(1);
  EXPECT_TRUE(workers.Populate(*file, {MiB(2), MiB(2)}, Pace::kUrgent).ok());
  EXPECT_TRUE(workers.Zero(*file, {Bytes(0), Bytes(0)}, Pace::kUrgent).ok());
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
}

TEST_P(NodeWorkersTest, CancelledJobsEndAndSayThatTheyDidNot) {
  NodeWorkers workers({.threads = GetParam()});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
  workers.Cancel();
  EXPECT_EQ(workers.Zero(*file, {Bytes(0), file->size()}, Pace::kUrgent).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).code(),
      absl::StatusCode::kCancelled);
}

TEST_P(NodeWorkersTest, CountsThreadsAndRates) {
  NodeWorkers workers({.threads = GetParam(), .tune = true});
  EXPECT_EQ(workers.zeroing().threads, GetParam()) << "the first to be tried";
  EXPECT_EQ(workers.zeroing().bytes_per_second, 0);
  auto file = File(300);
  ASSERT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
  EXPECT_GT(workers.populating().bytes_per_second, 0);
  EXPECT_EQ(workers.zeroing().bytes_per_second, 0);
  ASSERT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
  EXPECT_GT(workers.zeroing().bytes_per_second, 0);
}

// At 1 MiB a second 80 MiB would take more than a minute.
TEST_P(NodeWorkersTest, ACappedJobGoesOnAtOnceWhenSomebodyWaits) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = MiB(1)});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
  std::thread waiter([&] { workers.Hurry(); });
  EXPECT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
  waiter.join();
  // Until it is told otherwise.
  EXPECT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
}

TEST_P(NodeWorkersTest, ACapSaysNothingAboutTheMachine) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = GiB(1 << 20)});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kBackground)
          .ok());
  EXPECT_EQ(workers.populating().bytes_per_second, 0);
  workers.Hurry();
  ASSERT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
  EXPECT_GT(workers.zeroing().bytes_per_second, 0);
}

TEST_P(NodeWorkersTest, TheCallerDoesOtherWorkWhileTheCapHoldsItUp) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = KiB(1)});
  const auto caller = std::this_thread::get_id();
  std::atomic<int> done = 0;
  workers.SetMeanwhile([&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    // Enough of it.
    if (++done == 2) workers.Hurry();
    workers.Nudge();
  });
  // Two pieces: with several threads the caller may have none left to do.
  auto file = File(32);
  std::thread other([&] { workers.Nudge(); });
  EXPECT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kBackground)
          .ok());
  EXPECT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
  other.join();
  EXPECT_GE(done, 2);
}

TEST_P(NodeWorkersTest, ANewCapIsForTheJobAtHandToo) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = MiB(1)});
  auto file = File(40);
  std::thread admin([&] { workers.SetBandwidth(std::nullopt); });
  EXPECT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kBackground)
          .ok());
  EXPECT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
  admin.join();
}

// Looks at once, and then every second while the job lasts; never again.
TEST_P(NodeWorkersTest, BacksOffFromOthersPressureWhileItWorks) {
  sys::FakePressure pressure;
  NodeWorkers workers({.threads = GetParam(),
                       .bandwidth = MiB(64),
                       .pressure = &pressure,
                       .pressure_limit = 10});
  EXPECT_EQ(pressure.reads(), 0) << "a daemon at rest leaves it alone";
  pressure.Set(50);
  auto file = File(200);
  std::thread other([&] {
    pressure.WaitForReads(2);
    workers.Hurry();
  });
  EXPECT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
  other.join();
  EXPECT_EQ(pressure.reads(), 2);
  EXPECT_EQ(workers.pace().share, 0.25);
  EXPECT_EQ(workers.pace().bandwidth, MiB(16));
  EXPECT_EQ(workers.pace().pressure, 50);
  // Who hurries does not ask.
  EXPECT_TRUE(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).ok());
  EXPECT_EQ(pressure.reads(), 2);
}

TEST_P(NodeWorkersTest, ACappedJobEndsWhenItIsCancelled) {
  NodeWorkers workers({.threads = GetParam(), .bandwidth = MiB(1)});
  auto file = File(40);
  ASSERT_TRUE(
      workers.Populate(*file, {Bytes(0), file->size()}, Pace::kUrgent).ok());
  workers.Hurry();
  workers.Calm();
  std::thread stop([&] { workers.Cancel(); });
  EXPECT_EQ(
      workers.Zero(*file, {Bytes(0), file->size()}, Pace::kBackground).code(),
      absl::StatusCode::kCancelled);
  stop.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, NodeWorkersTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace hugepool
