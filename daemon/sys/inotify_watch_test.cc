#include "daemon/sys/inotify_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/sys/real_huge_memory.h"
#include "daemon/sys/testing/reserve_pages.h"

namespace hugepool::sys {
namespace {

using testing::ReservedPages;

constexpr NodeId kNode{0};

// Events as they come.
class Recorder {
 public:
  void Add(const HolderWatch::Event& event) {
    MutexLock lock(&mu_);
    events_.push_back(event);
    cv_.SignalAll();
  }
  // Waits until there is an event that fits; the events so far, or nothing
  // after 30 s.
  std::vector<HolderWatch::Event> Until(
      const std::function<bool(const HolderWatch::Event&)>& fits) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    MutexLock lock(&mu_);
    for (;;) {
      for (const auto& event : events_) {
        if (fits(event)) return std::exchange(events_, {});
      }
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return {};
      cv_.WaitFor(&mu_, left);
    }
  }

 private:
  Mutex mu_;
  CondVar cv_;
  std::vector<HolderWatch::Event> events_ HP_GUARDED_BY(mu_);
};

class InotifyWatchTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::kHugetlb) {
      auto pages = ReservedPages::Reserve(k2M, PageCount(4), kNode);
      if (!pages.ok()) GTEST_SKIP() << "no huge pages: " << pages.status();
      pages_.emplace(*std::move(pages));
    }
    ASSERT_EQ(memory_.SelfTest(), ProbeKind::kLease);
    auto watch =
        InotifyWatch::Start([this](const auto& event) { seen_.Add(event); });
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
  }
  std::unique_ptr<HugeFile> Populated(uint64_t pages) {
    auto file = *memory_.Create(k2M, PageCount(pages), kNode);
    EXPECT_TRUE(file->Map(kNode).ok());
    EXPECT_TRUE(file->Populate(Bytes(0), file->size()).ok());
    return file;
  }

  std::optional<ReservedPages> pages_;
  RealHugeMemory memory_{GetParam()};
  Recorder seen_;
  std::unique_ptr<InotifyWatch> watch_;
};

INSTANTIATE_TEST_SUITE_P(Backends, InotifyWatchTest,
                         ::testing::Values(Backend::kHugetlb, Backend::kShmem),
                         [](const auto& info) {
                           return info.param == Backend::kHugetlb ? "Hugetlb"
                                                                  : "Shmem";
                         });

TEST_P(InotifyWatchTest, TellsTheLastCloseOfADescription) {
  auto file = Populated(1);
  ASSERT_TRUE(watch_->Add(*file).ok());
  ASSERT_TRUE(watch_->SetTripwire(*file, true).ok());
  auto fd = *file->OpenForHolder();
  const auto opened = seen_.Until([](const auto& e) { return e.opened; });
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0].inode, file->inode());
  void* const map =
      mmap(nullptr, k2M.bytes().value(), PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  fd.reset();
  // The mapping still counts: the chmod is told first.
  ASSERT_EQ(fchmod(file->fd(), 0640), 0);
  const auto changed = seen_.Until([](const auto& e) { return e.changed; });
  ASSERT_EQ(changed.size(), 1u);
  munmap(map, k2M.bytes().value());
  EXPECT_FALSE(seen_.Until([](const auto& e) { return e.closed; }).empty());
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
}

TEST_P(InotifyWatchTest, WithoutTheTripwireOpensAreNotToldClosesAre) {
  auto file = Populated(1);
  ASSERT_TRUE(watch_->Add(*file).ok());
  for (const bool was_on : {false, true}) {
    SCOPED_TRACE(was_on);
    ASSERT_TRUE(watch_->SetTripwire(*file, was_on).ok());
    ASSERT_TRUE(watch_->SetTripwire(*file, false).ok());
    EXPECT_EQ(watch_->watched(), 1u) << "the same watch, with another mask";
    { auto holder = file->OpenForHolder(); }
    const auto events = seen_.Until([](const auto& e) { return e.closed; });
    ASSERT_FALSE(events.empty());
    for (const auto& event : events) EXPECT_FALSE(event.opened);
  }
}

TEST_P(InotifyWatchTest, TripwireOfAFileThatIsNotWatchedIsRefused) {
  auto file = Populated(1);
  EXPECT_EQ(watch_->SetTripwire(*file, true).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(InotifyWatchTest, TellsPunchAndTruncate) {
  auto file = Populated(2);
  ASSERT_TRUE(watch_->Add(*file).ok());
  auto fd = *file->OpenForHolder();
  ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      MiB(2).value()),
            0);
  EXPECT_FALSE(seen_.Until([](const auto& e) { return e.changed; }).empty());
  ASSERT_EQ(ftruncate(fd.get(), MiB(2).value()), 0);
  EXPECT_FALSE(seen_.Until([](const auto& e) { return e.changed; }).empty());
}

// The witness of memory that was let go of: the watch keeps nothing alive, and
// tells when the holder's mapping, the last thing there is, has gone.
TEST_P(InotifyWatchTest, DeletedComesWithTheLastMappingAndPagesAreFree) {
  auto file = Populated(2);
  const InodeId inode = file->inode();
  ASSERT_TRUE(watch_->Add(*file).ok());
  auto fd = *file->OpenForHolder();
  void* const map =
      mmap(nullptr, MiB(4).value(), PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  file.reset();  // let go
  const auto ours = seen_.Until([](const auto& e) { return e.closed; });
  for (const auto& event : ours) EXPECT_FALSE(event.deleted);
  fd.reset();
  if (pages_.has_value()) {
    EXPECT_EQ(pages_->Free(), PageCount(2));
  }
  munmap(map, MiB(4).value());
  const auto last = seen_.Until([](const auto& e) { return e.deleted; });
  ASSERT_EQ(last.size(), 2u);
  EXPECT_TRUE(last[0].closed);
  EXPECT_TRUE(last[1].deleted);
  EXPECT_EQ(last[1].inode, inode);
  if (pages_.has_value()) {
    EXPECT_TRUE(pages_->WaitForFree(PageCount(4)));
  }
}

TEST_P(InotifyWatchTest, ForgetsFilesThatAreRemovedOrGone) {
  auto file = Populated(1);
  auto other = Populated(1);
  ASSERT_TRUE(watch_->Add(*file).ok());
  ASSERT_TRUE(watch_->Add(*file).ok());
  ASSERT_TRUE(watch_->Add(*other).ok());
  EXPECT_EQ(watch_->watched(), 2u);
  watch_->Remove(file->inode());
  watch_->Remove(file->inode());
  EXPECT_EQ(watch_->watched(), 1u);
  ASSERT_EQ(fchmod(file->fd(), 0640), 0);
  const InodeId gone = other->inode();
  other.reset();
  const auto events = seen_.Until([](const auto& e) { return e.deleted; });
  ASSERT_FALSE(events.empty());
  for (const auto& event : events) EXPECT_EQ(event.inode, gone);
}

TEST_P(InotifyWatchTest, OverflowIsToldAndNoEndOfAnInodeIsLost) {
  auto a = Populated(1);
  auto b = Populated(1);
  auto c = Populated(1);
  const InodeId ended = c->inode();
  Mutex mu;
  CondVar cv;
  bool go = false;  // guarded by mu
  bool overflow = false;
  bool deleted = false;
  auto slow = InotifyWatch::Start([&](const auto& event) {
    MutexLock lock(&mu);
    while (!go) cv.Wait(&mu);
    overflow |= event.overflow;
    deleted |= event.deleted && event.inode == ended;
    cv.SignalAll();
  });
  ASSERT_TRUE(slow.ok()) << slow.status();
  ASSERT_TRUE((*slow)->Add(*a).ok());
  ASSERT_TRUE((*slow)->Add(*b).ok());
  ASSERT_TRUE((*slow)->Add(*c).ok());
  // Alternating, so that the kernel cannot merge them; fs.inotify's
  // max_queued_events is 16,384 unless somebody raised it.
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(fchmod(a->fd(), 0600), 0);
    ASSERT_EQ(fchmod(b->fd(), 0600), 0);
  }
  c.reset();  // the queue is full: its IN_DELETE_SELF is dropped
  MutexLock lock(&mu);
  go = true;
  cv.SignalAll();
  while (!overflow || !deleted) {
    ASSERT_TRUE(cv.WaitFor(&mu, absl::Seconds(30)));
  }
}

TEST_P(InotifyWatchTest, CallbackMayRemove) {
  std::unique_ptr<HolderWatch> watch;
  Mutex mu;
  CondVar cv;
  bool done = false;  // guarded by mu
  auto started = InotifyWatch::Start([&](const auto& event) {
    MutexLock lock(&mu);
    watch->Remove(event.inode);
    done = true;
    cv.SignalAll();
  });
  ASSERT_TRUE(started.ok()) << started.status();
  auto file = Populated(1);
  {
    MutexLock lock(&mu);
    watch = *std::move(started);
    ASSERT_TRUE(watch->Add(*file).ok());
    ASSERT_EQ(fchmod(file->fd(), 0600), 0);
    while (!done) ASSERT_TRUE(cv.WaitFor(&mu, absl::Seconds(30)));
  }
  watch.reset();
}

}  // namespace
}  // namespace hugepool::sys
