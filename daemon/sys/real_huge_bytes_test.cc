// The bytes of files of both backends on the real kernel. Those of hugetlb need
// root and memory for 16 pages of 2 MiB; they are skipped, with the reason,
// without.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/sys/real_huge_memory.h"
#include "daemon/sys/testing/reserve_pages.h"

namespace hugepool::sys {
namespace {

using testing::ReservedPages;

constexpr NodeId kNode{0};

void SetBytes(std::byte* start, size_t length) { memset(start, 0, length); }

class RealHugeBytesTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::kHugetlb) {
      auto pages = ReservedPages::Reserve(k2M, PageCount(16), kNode);
      if (!pages.ok()) GTEST_SKIP() << "no huge pages: " << pages.status();
      pages_.emplace(*std::move(pages));
    }
    ASSERT_EQ(memory_.SelfTest(), ProbeKind::kLease);
  }

  std::unique_ptr<HugeFile> Populated(uint64_t pages) {
    auto file = memory_.Create(k2M, PageCount(pages), kNode);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Map(kNode).ok());
    const absl::Status populated = (*file)->Populate(Bytes(0), (*file)->size());
    EXPECT_TRUE(populated.ok()) << populated;
    return *std::move(file);
  }
  // Every byte says where it is.
  static void Fill(HugeFile& file, unsigned seed) {
    auto* at = reinterpret_cast<unsigned char*>(file.data());
    for (uint64_t i = 0; i < file.size().value(); ++i) {
      at[i] = static_cast<unsigned char>(i * 7 + i / 4096 + seed);
    }
  }

  std::optional<ReservedPages> pages_;  // goes last
  RealHugeMemory memory_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Backends, RealHugeBytesTest,
                         ::testing::Values(Backend::kHugetlb, Backend::kShmem),
                         [](const auto& info) {
                           return info.param == Backend::kHugetlb ? "Hugetlb"
                                                                  : "Shmem";
                         });

TEST_P(RealHugeBytesTest, FreshMemoryHasNoStrayByte) {
  auto file = Populated(3);
  const auto stray = file->FindStray(Bytes(0), file->size());
  ASSERT_TRUE(stray.ok()) << stray.status();
  EXPECT_EQ(stray->count, 0u);
}

TEST_P(RealHugeBytesTest, EveryStrayByteIsFound) {
  auto file = Populated(3);
  for (uint64_t at : {uint64_t{0}, uint64_t{63}, uint64_t{64}, uint64_t{4095},
                      MiB(2).value(), MiB(6).value() - 1}) {
    file->data()[at] = std::byte{1};
    const auto stray = file->FindStray(Bytes(0), file->size());
    ASSERT_TRUE(stray.ok()) << stray.status();
    EXPECT_EQ(stray->count, 1u) << at;
    EXPECT_EQ(stray->first, Bytes(at));
    file->data()[at] = std::byte{0};
  }
  file->data()[100] = std::byte{1};
  file->data()[MiB(3).value()] = std::byte{0x80};
  const auto both = file->FindStray(Bytes(0), file->size());
  EXPECT_EQ(both->count, 2u);
  EXPECT_EQ(both->first, Bytes(100));
  EXPECT_EQ(file->FindStray(Bytes(128), MiB(1))->count, 0u);
}

TEST_P(RealHugeBytesTest, ACopyHasTheSameBytes) {
  auto source = Populated(3);
  Fill(*source, 1);
  auto copy = Populated(3);
  ASSERT_TRUE(copy->CopyFrom(*source, Bytes(0), Bytes(0), source->size()).ok());
  EXPECT_EQ(memcmp(copy->data(), source->data(), source->size().value()), 0);
  // Across pages, neither end on one.
  auto part = Populated(2);
  ASSERT_TRUE(
      part->CopyFrom(*source, Bytes(4096 * 3), Bytes(4096), MiB(3)).ok());
  EXPECT_EQ(
      memcmp(part->data() + 4096, source->data() + 4096 * 3, MiB(3).value()),
      0);
  EXPECT_EQ(part->FindStray(Bytes(0), Bytes(4096))->count, 0u);
  EXPECT_EQ(part->FindStray(Bytes(4096) + MiB(3), MiB(1) - Bytes(4096))->count,
            0u);
}

TEST_P(RealHugeBytesTest, AHoleReadsAsZeroAndStaysAHole) {
  auto source = Populated(3);
  Fill(*source, 2);
  ASSERT_TRUE(source->Punch(MiB(2), MiB(2)).ok());
  auto copy = Populated(3);
  ASSERT_TRUE(copy->CopyFrom(*source, Bytes(0), Bytes(0), source->size()).ok());
  EXPECT_EQ(copy->FindStray(MiB(2), MiB(2))->count, 0u);
  EXPECT_EQ(source->Facts()->allocated, MiB(4));
}

TEST_P(RealHugeBytesTest, ASourceThatWasCutIsAnErrorNotZeros) {
  auto source = Populated(3);
  Fill(*source, 3);
  ASSERT_EQ(ftruncate(source->fd(), static_cast<off_t>(MiB(2).value())), 0);
  auto copy = Populated(3);
  EXPECT_EQ(copy->CopyFrom(*source, Bytes(0), Bytes(0), MiB(6)).code(),
            absl::StatusCode::kDataLoss);
}

// Only of hugetlb files: pages of ordinary memory are small.
TEST_P(RealHugeBytesTest, HolesAreFilledWithCopiesAndZeros) {
  auto source = Populated(3);
  Fill(*source, 5);
  auto file = *memory_.Create(k2M, PageCount(4), kNode);
  ASSERT_TRUE(file->Map(kNode).ok());
  EXPECT_EQ(memory_.CanFill(k2M), GetParam() == Backend::kHugetlb);
  EXPECT_FALSE(memory_.CanFill(k1G));
  auto fill = file->StartFill();
  if (GetParam() == Backend::kShmem) {
    EXPECT_EQ(fill.status().code(), absl::StatusCode::kUnimplemented);
    return;
  }
  ASSERT_TRUE(fill.ok()) << fill.status();
  // A page of two parts with a gap before, between and behind them.
  const std::vector<CopyPart> parts = {
      {source.get(), MiB(1), Bytes(64), KiB(512)},
      {source.get(), MiB(3), MiB(1), KiB(700)}};
  ASSERT_TRUE((*fill)->FillPage(MiB(2), {{source.get(), MiB(2), MiB(2), MiB(2)}})
                  .ok());
  ASSERT_TRUE((*fill)->FillPage(Bytes(0), parts).ok());
  ASSERT_TRUE((*fill)->FillPage(MiB(6), {}).ok());
  EXPECT_EQ(file->Facts()->allocated, MiB(6));
  fill->reset();
  EXPECT_EQ(memcmp(file->data() + MiB(2).value(),
                   source->data() + MiB(2).value(), MiB(2).value()),
            0);
  EXPECT_EQ(memcmp(file->data() + 64, source->data() + MiB(1).value(),
                   KiB(512).value()),
            0);
  EXPECT_EQ(memcmp(file->data() + MiB(1).value(),
                   source->data() + MiB(3).value(), KiB(700).value()),
            0);
  EXPECT_EQ(file->FindStray(Bytes(0), Bytes(64))->count, 0u);
  EXPECT_EQ(file->FindStray(KiB(513), KiB(511))->count, 0u);
  EXPECT_EQ(file->FindStray(KiB(1724), KiB(324))->count, 0u);
  EXPECT_EQ(file->FindStray(MiB(6), MiB(2))->count, 0u);
  // What is no hole of the fill any more is filled by a touch, as any.
  EXPECT_EQ(file->FindStray(MiB(4), MiB(2))->count, 0u);
  EXPECT_EQ(file->PageNodes()->size(), 4u);
}

TEST_P(RealHugeBytesTest, AFillThatFailsLeavesTheHole) {
  if (GetParam() == Backend::kShmem) return;
  auto source = Populated(1);
  auto file = *memory_.Create(k2M, PageCount(2), kNode);
  EXPECT_EQ(file->StartFill().status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(file->Map(kNode).ok());
  auto fill = file->StartFill();
  ASSERT_TRUE(fill.ok()) << fill.status();
  EXPECT_EQ((*fill)
                ->FillPage(Bytes(0), {{source.get(), MiB(1), Bytes(0), MiB(2)}})
                .code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ((*fill)
                ->FillPage(Bytes(0), {{source.get(), Bytes(0), MiB(1), MiB(2)}})
                .code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*fill)->FillPage(MiB(1), {}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*fill)->FillPage(MiB(4), {}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->Facts()->allocated, Bytes(0));
  ASSERT_TRUE((*fill)->FillPage(Bytes(0), {}).ok());
  // There is a page now.
  EXPECT_EQ((*fill)->FillPage(Bytes(0), {}).code(),
            absl::StatusCode::kAlreadyExists);
}

// N32: what cannot be written or read is an error, not the end of the process.
TEST_P(RealHugeBytesTest, N32AFileThatWasCutIsAnErrorNotASignal) {
  auto file = Populated(3);
  ASSERT_EQ(ftruncate(file->fd(), static_cast<off_t>(MiB(2).value())), 0);
  EXPECT_TRUE(file->Zero(Bytes(0), MiB(2), SetBytes).ok());
  EXPECT_EQ(file->Zero(Bytes(0), MiB(6), SetBytes).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(file->FindStray(MiB(2), MiB(2)).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_P(RealHugeBytesTest, RangesOutsideOfTheMappingAreRefused) {
  auto file = Populated(2);
  auto source = Populated(1);
  EXPECT_EQ(file->FindStray(MiB(2), MiB(4)).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->CopyFrom(*source, Bytes(0), MiB(3), MiB(2)).code(),
            absl::StatusCode::kOutOfRange);
  file->Unmap();
  EXPECT_EQ(file->FindStray(Bytes(0), MiB(1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hugepool::sys
