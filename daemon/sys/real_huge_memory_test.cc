// Files of both backends on the real kernel. Those of hugetlb need root and
// memory for 64 pages of 2 MiB; they are skipped, with the reason, without.
#include "daemon/sys/real_huge_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/sysfs.h"
#include "daemon/sys/testing/refusing_child.h"
#include "daemon/sys/testing/reserve_pages.h"

namespace hugepool::sys {
namespace {

using testing::ReservedPages;
using testing::RunRefusing;

constexpr NodeId kNode{0};
constexpr uint64_t kPages = 64;

void SetBytes(std::byte* start, size_t length) { memset(start, 0, length); }

class RealHugeMemoryTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::kHugetlb) {
      auto pages = ReservedPages::Reserve(k2M, PageCount(kPages), kNode);
      if (!pages.ok()) GTEST_SKIP() << "no huge pages: " << pages.status();
      pages_.emplace(*std::move(pages));
    }
    ASSERT_EQ(memory_.SelfTest(), ProbeKind::kLease);
  }

  std::unique_ptr<HugeFile> Make(uint64_t pages) {
    auto file = memory_.Create(k2M, PageCount(pages), kNode);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  std::unique_ptr<HugeFile> Populated(uint64_t pages) {
    auto file = Make(pages);
    EXPECT_TRUE(file->Map(kNode).ok());
    const absl::Status populated = file->Populate(Bytes(0), file->size());
    EXPECT_TRUE(populated.ok()) << populated;
    return file;
  }

  std::optional<ReservedPages> pages_;  // goes last
  RealHugeMemory memory_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Backends, RealHugeMemoryTest,
                         ::testing::Values(Backend::kHugetlb, Backend::kShmem),
                         [](const auto& info) {
                           return info.param == Backend::kHugetlb ? "Hugetlb"
                                                                  : "Shmem";
                         });

TEST_P(RealHugeMemoryTest, NewFileIsPrivateSealableAndEmpty) {
  auto file = Make(3);
  const auto facts = file->Facts();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->inode, file->inode());
  EXPECT_EQ(facts->size, MiB(6));
  EXPECT_EQ(facts->allocated, Bytes(0));
  EXPECT_EQ(facts->mode, 0600u);
  EXPECT_EQ(facts->uid, geteuid());
  EXPECT_EQ(facts->seals, 0);
  EXPECT_EQ(fcntl(file->fd(), F_GETFD), FD_CLOEXEC);
}

TEST_P(RealHugeMemoryTest, PopulatesPartsZeroesThemAndKnowsTheirNode) {
  auto file = Make(8);
  ASSERT_TRUE(file->Map(kNode).ok());
  ASSERT_TRUE(file->Populate(MiB(4), MiB(4)).ok());
  EXPECT_EQ(file->Facts()->allocated, MiB(4));
  EXPECT_EQ(file->PageNodes().status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(file->Populate(Bytes(0), file->size()).ok());
  EXPECT_EQ(file->Facts()->allocated, MiB(16));
  const auto nodes = file->PageNodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(*nodes, std::vector<NodeId>(8, kNode));
  EXPECT_TRUE(*file->AllZero());
  file->data()[MiB(15).value()] = std::byte{1};
  EXPECT_FALSE(*file->AllZero());
  ASSERT_TRUE(file->Zero(MiB(14), MiB(2), SetBytes).ok());
  EXPECT_TRUE(*file->AllZero());
  EXPECT_EQ(file->Populate(MiB(14), MiB(4)).code(),
            absl::StatusCode::kOutOfRange);
}

TEST_P(RealHugeMemoryTest, WorkersPopulatePartsAtOnce) {
  auto file = Make(16);
  ASSERT_TRUE(file->Map(kNode).ok());
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < 4; ++i) {
    workers.emplace_back(
        [&file, i] { EXPECT_TRUE(file->Populate(MiB(8 * i), MiB(8)).ok()); });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(file->Facts()->allocated, file->size());
}

TEST_P(RealHugeMemoryTest, GrowsByTheMissingPages) {
  auto file = Populated(2);
  EXPECT_EQ(file->Grow(MiB(8)).code(), absl::StatusCode::kFailedPrecondition);
  file->data()[0] = std::byte{7};
  file->Unmap();
  ASSERT_TRUE(file->Grow(MiB(8)).ok());
  EXPECT_EQ(file->Grow(MiB(4)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(file->Map(kNode).ok());
  ASSERT_TRUE(file->Populate(MiB(4), MiB(4)).ok());
  EXPECT_EQ(file->data()[0], std::byte{7});
  EXPECT_EQ(file->PageNodes()->size(), 4u);
}

TEST_P(RealHugeMemoryTest, ProbeSeesDescriptorMappingAndChild) {
  auto file = Populated(1);
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
  EXPECT_TRUE(file->StillArmed());
  auto fd = file->OpenForHolder();
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  void* const map =
      mmap(nullptr, k2M.bytes().value(), PROT_READ, MAP_SHARED, fd->get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  fd->reset();
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    close(writer.get());
    char byte;
    _exit(read(reader.get(), &byte, 1) == 0 ? 0 : 1);
  }
  munmap(map, k2M.bytes().value());
  EXPECT_EQ(file->Probe(), HolderAnswer::kBusy);
  writer.reset();
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
}

// K8: the signal of a broken lease would end the process.
TEST_P(RealHugeMemoryTest, AnOpenAfterTheProbeIsNoticed) {
  auto file = Populated(1);
  ASSERT_EQ(file->Probe(), HolderAnswer::kFree);
  const std::string path = absl::StrCat("/proc/self/fd/", file->fd());
  UniqueFd other(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  EXPECT_FALSE(other.valid());  // it would have to wait for us
  EXPECT_FALSE(file->StillArmed());
  EXPECT_EQ(file->OpenForHolder().status().code(), absl::StatusCode::kAborted);
  // Asked again there is nobody: the open did not wait.
  EXPECT_EQ(file->Probe(), HolderAnswer::kFree);
  EXPECT_TRUE(file->OpenForHolder().ok());
}

TEST_P(RealHugeMemoryTest, SealsAreSetOnceAndHold) {
  auto file = Make(2);
  auto holder = *file->OpenForHolder();
  ASSERT_TRUE(file->Seal({}).ok());
  ASSERT_TRUE(file->Seal({}).ok());
  EXPECT_EQ(file->Facts()->seals, F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_EQ(ErrnoOf(file->Seal({.shrink = true})), EPERM);  // N8
  EXPECT_NE(ftruncate(holder.get(), MiB(8).value()), 0);
  EXPECT_NE(fcntl(holder.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(ErrnoOf(file->Grow(MiB(8))), EPERM);
}

TEST_P(RealHugeMemoryTest, GiveBackEmptiesTheFileSealedOrNot) {
  for (const bool shrink : {false, true}) {
    auto file = Populated(4);
    auto holder = *file->OpenForHolder();
    ASSERT_TRUE(file->Seal({.shrink = shrink}).ok());
    ASSERT_TRUE(file->GiveBack().ok());
    EXPECT_FALSE(file->mapped());
    EXPECT_EQ(file->Facts()->allocated, Bytes(0));
    EXPECT_EQ(file->Facts()->size, shrink ? MiB(8) : Bytes(0));
    if (pages_.has_value()) {
      EXPECT_TRUE(pages_->WaitForFree(PageCount(kPages)));
    }
  }
}

TEST_P(RealHugeMemoryTest, AHoleIsSeenInTheFacts) {
  auto file = Populated(4);
  ASSERT_TRUE(file->Punch(MiB(2), MiB(2)).ok());
  EXPECT_EQ(file->Facts()->allocated, MiB(6));
  EXPECT_TRUE(*file->AllZero());  // allocates nothing
  EXPECT_EQ(file->Facts()->allocated, MiB(6));
}

TEST_P(RealHugeMemoryTest, TheInodeIsGivenAndTakenBack) {
  if (geteuid() != 0) GTEST_SKIP() << "needs CAP_CHOWN";
  auto file = Make(1);
  ASSERT_TRUE(file->GiveInode(65534, 65534).ok());
  EXPECT_EQ(file->Facts()->uid, 65534u);
  ASSERT_EQ(fchmod(file->fd(), 0666), 0);
  ASSERT_TRUE(file->TakeInodeBack().ok());
  EXPECT_EQ(file->Facts()->uid, geteuid());
  EXPECT_EQ(file->Facts()->mode, 0600u);
}

// N12: the policy stands while not one page is there.
TEST_P(RealHugeMemoryTest, N12PolicyBeforePopulate) {
  auto file = Make(4);
  ASSERT_TRUE(file->Map(kNode).ok());
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
  const auto maps = ReadSmallFile("/proc/self/numa_maps");
  ASSERT_TRUE(maps.ok()) << maps.status();
  const std::string address = absl::StrCat(
      absl::Hex(reinterpret_cast<uintptr_t>(file->data())), " bind:0 ");
  EXPECT_TRUE(absl::StrContains(*maps, address)) << address << "\n" << *maps;
}

// N13: a refused policy is an error that says why, and nothing stays mapped.
TEST_P(RealHugeMemoryTest, N13RefusedPolicyIsAnError) {
  for (const long call : {SYS_mbind, SYS_get_mempolicy}) {
    EXPECT_EQ(RunRefusing({.syscall_number = call, .error_number = EPERM},
                          [&] {
                            auto file = Make(1);
                            const absl::Status status = file->Map(kNode);
                            if (ErrnoOf(status) != EPERM) return 1;
                            if (file->mapped()) return 2;
                            const bool says =
                                absl::StrContains(status.message(), "seccomp");
                            return says ? 0 : 3;
                          }),
              0);
  }
}

// N14: EINVAL of a mask outside the cpuset would say nothing.
TEST_P(RealHugeMemoryTest, N14NodeOutsideMemsAllowedIsNamed) {
  auto file = Make(1);
  for (const NodeId node : {NodeId(1000), NodeId(5000)}) {
    const absl::Status status = file->Map(node);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(status.message(), "Mems_allowed")) << status;
    EXPECT_FALSE(file->mapped());
  }
}

// N58: the flag is left out on EINVAL, and on EINVAL only.
TEST_P(RealHugeMemoryTest, N58NoexecSealFallsBackOnEinvalOnly) {
  constexpr uint32_t kNoexecSeal = 8;
  const auto create = [&] {
    RealHugeMemory memory(GetParam());
    auto file = memory.Create(k2M, PageCount(1), kNode);
    return file.ok() ? 0 : ErrnoOf(file.status());
  };
  EXPECT_EQ(RunRefusing({.syscall_number = SYS_memfd_create,
                         .error_number = EINVAL,
                         .argument = 1,
                         .has_bit = kNoexecSeal},
                        create),
            0);
  EXPECT_EQ(RunRefusing({.syscall_number = SYS_memfd_create,
                         .error_number = EACCES,
                         .argument = 1,
                         .has_bit = kNoexecSeal},
                        create),
            EACCES);
}

// N58, K13: a host that forbids executable memfds.
TEST_P(RealHugeMemoryTest, N58WorksWithMemfdNoexec2) {
  if (geteuid() != 0) GTEST_SKIP() << "needs a PID namespace";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    const pid_t first = fork();
    if (first == 0) {
      // The sysctl belongs to the writer's PID namespace.
      if (!WriteSmallFile("/proc/sys/vm/memfd_noexec", "2").ok()) _exit(77);
      _exit(memory_.Create(k2M, PageCount(1), kNode).ok() ? 0 : 1);
    }
    int status = 0;
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no vm.memfd_noexec here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// As with fs.leases-enable=0, or a file system without leases.
TEST_P(RealHugeMemoryTest, WithoutLeasesThereIsNoProbe) {
  EXPECT_EQ(RunRefusing({.syscall_number = SYS_fcntl,
                         .error_number = EINVAL,
                         .argument = 1,
                         .equals = F_SETLEASE},
                        [&] {
                          RealHugeMemory memory(GetParam());
                          if (memory.SelfTest() != ProbeKind::kNone) return 1;
                          auto file = memory.Create(k2M, PageCount(1), kNode);
                          return (*file)->Probe() == HolderAnswer::kUnknown ? 0
                                                                            : 2;
                        }),
            0);
}

TEST_P(RealHugeMemoryTest, SelfTestSeesReadersToo) {
  EXPECT_TRUE(memory_.lease_report().usable());
  EXPECT_TRUE(memory_.lease_report().readonly_busy);
}

TEST_P(RealHugeMemoryTest, SizesThatCannotBeAreRefused) {
  for (const uint64_t pages : {uint64_t{0}, uint64_t{1} << 42, ~uint64_t{0}}) {
    EXPECT_EQ(memory_.Create(k2M, PageCount(pages), kNode).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

using HugetlbTest = RealHugeMemoryTest;
INSTANTIATE_TEST_SUITE_P(Hugetlb, HugetlbTest,
                         ::testing::Values(Backend::kHugetlb));

TEST_P(HugetlbTest, K1UnknownPageSizeIsRefused) {
  const auto file =
      memory_.Create(PageSize::FromShift(29), PageCount(1), kNode);
  EXPECT_NE(ErrnoOf(file.status()), 0) << file.status();
}

TEST_P(HugetlbTest, WithoutPagesMappingIsResourceExhausted) {
  auto all = Populated(pages_->Free().value());
  auto more = Make(1);
  EXPECT_EQ(more->Map(kNode).code(), absl::StatusCode::kResourceExhausted);
}

// K3: EFAULT is what a shortage looks like, and what was got stays.
TEST_P(HugetlbTest, K3WithoutPagesPopulatingIsResourceExhausted) {
  auto file = Populated(4);
  ASSERT_TRUE(file->Punch(Bytes(0), file->size()).ok());  // nothing set aside
  auto rest = Populated(pages_->Free().value() - 2);
  EXPECT_EQ(file->Populate(Bytes(0), file->size()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(file->Facts()->allocated, MiB(4));
}

// move_pages sees only our page tables; a holder's new page is not in them.
TEST_P(HugetlbTest, PageNodesSeesAPageThatAHolderRefaulted) {
  auto file = Populated(2);
  {
    auto fd = *file->OpenForHolder();
    ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        MiB(2).value()),
              0);
    ASSERT_EQ(fallocate(fd.get(), 0, 0, MiB(2).value()), 0);
  }
  const auto nodes = file->PageNodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(nodes->size(), 2u);
}

// The policy on our mapping and its place let a holder's mapping share the page
// tables: the kernel then counts no huge page as the holder's own.
TEST_P(HugetlbTest, WholeGibsShareTheirPageTables) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  auto more = ReservedPages::Reserve(k2M, PageCount(512), kNode);
  if (!more.ok()) GTEST_SKIP() << more.status();
  auto file = Populated(512);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->data()) % kGib, 0u);
  auto fd = *file->OpenForHolder();
  const pid_t child = fork();
  if (child == 0) {
    file->Unmap();
    void* const room = mmap(nullptr, 2 * kGib, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const uintptr_t place =
        (reinterpret_cast<uintptr_t>(room) + kGib - 1) / kGib * kGib;
    auto* const map = static_cast<volatile char*>(
        mmap(reinterpret_cast<void*>(place), kGib, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, fd.get(), 0));
    for (uint64_t i = 0; i < 512; ++i) map[i << 21] = 1;
    const auto status = ReadSmallFile("/proc/self/status");
    _exit(status.ok() && *FindField(*status, "HugetlbPages") == "0 kB" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(HugetlbTest, PagesOf1G) {
  auto gigantic = ReservedPages::Reserve(k1G, PageCount(1), kNode);
  if (!gigantic.ok()) GTEST_SKIP() << gigantic.status();
  auto file = memory_.Create(k1G, PageCount(1), kNode);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Map(kNode).ok());
  ASSERT_TRUE((*file)->Populate(Bytes(0), GiB(1)).ok());
  EXPECT_EQ(*(*file)->PageNodes(), std::vector<NodeId>{kNode});
  EXPECT_EQ((*file)->Facts()->allocated, GiB(1));
  EXPECT_EQ((*file)->Probe(), HolderAnswer::kFree);
  EXPECT_EQ(gigantic->Free(), PageCount(0));
  ASSERT_TRUE((*file)->GiveBack().ok());
  EXPECT_TRUE(gigantic->WaitForFree(PageCount(1)));
}

}  // namespace
}  // namespace hugepool::sys
