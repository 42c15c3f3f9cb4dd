// RealHugeFile's bytes: zeroed, looked at, copied.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "daemon/sys/bus_guard.h"
#include "daemon/sys/real_huge_file.h"

namespace hugepool::sys {
namespace {

// What is looked at at once; a cache line.
constexpr size_t kLine = 64;

absl::Status Lost(const BusFault& fault, const std::byte* data,
                  const char* what) {
  const auto at = static_cast<const std::byte*>(fault.address) - data;
  return absl::DataLossError(absl::StrCat(
      what, " met SIGBUS at byte ", at, ": ",
      fault.poisoned ? "poisoned memory" : "no page, or the file was cut"));
}

bool IsZeroLine(const std::byte* line) {
  uint64_t words[kLine / sizeof(uint64_t)];
  std::memcpy(words, line, kLine);
  uint64_t all = 0;
  for (uint64_t word : words) all |= word;
  return all == 0;
}

// Compilers turn the inner loop into vector loads; memory is the limit.
void CountStray(const std::byte* data, Bytes offset, Bytes length,
                HugeFile::Stray* stray) {
  const uint64_t end = (offset + length).value();
  for (uint64_t at = offset.value(); at < end; at += kLine) {
    if (IsZeroLine(data + at)) [[likely]]
      continue;
    for (uint64_t i = at; i < at + kLine; ++i) {
      if (data[i] == std::byte{0}) continue;
      if (stray->count++ == 0) stray->first = Bytes(i);
    }
  }
}

}  // namespace

absl::Status ReadFrom(HugeFile& source, Bytes from, std::byte* to,
                      Bytes length) {
  for (uint64_t done = 0; done < length.value();) {
    const ssize_t n = pread(source.fd(), to + done, length.value() - done,
                            static_cast<off_t>(from.value() + done));
    if (n > 0) {
      done += static_cast<uint64_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) {
      return absl::DataLossError(absl::StrCat("the source ends at byte ",
                                              from.value() + done,
                                              ": its holder has cut it"));
    }
    // EIO and EFAULT: what some kernels say of poisoned pages.
    if (errno == EHWPOISON || errno == EIO || errno == EFAULT) {
      return absl::DataLossError(
          absl::StrCat("byte ", from.value() + done,
                       " of the source cannot be read: ", strerror(errno)));
    }
    return ErrnoToStatus(errno, "pread(memfd)");
  }
  return absl::OkStatus();
}

absl::Status RealHugeFile::Zero(Bytes offset, Bytes length,
                                ZeroRoutine routine) {
  HP_RETURN_IF_ERROR(CheckMappedRange(offset, length));
  const auto fault =
      Guarded([&] { routine(data_ + offset.value(), length.value()); });
  return fault ? Lost(*fault, data_, "zeroing") : absl::OkStatus();
}

absl::StatusOr<HugeFile::Stray> RealHugeFile::FindStray(Bytes offset,
                                                        Bytes length) {
  HP_RETURN_IF_ERROR(CheckMappedRange(offset, length));
  Stray stray;
  const auto fault =
      Guarded([&] { CountStray(data_, offset, length, &stray); });
  if (fault) return Lost(*fault, data_, "verifying");
  return stray;
}

// The kernel copies from its own mapping of the source: no page table of ours,
// one pass. Reading into a buffer that stays in the caches and streaming from
// there was slower (8 to 11 GB/s against 12 to 14 where this was measured).
absl::Status RealHugeFile::CopyFrom(HugeFile& source, Bytes from, Bytes offset,
                                    Bytes length) {
  HP_RETURN_IF_ERROR(CheckMappedRange(offset, length));
  return ReadFrom(source, from, data_ + offset.value(), length);
}

absl::StatusOr<bool> RealHugeFile::AllZero() {
  constexpr size_t kChunk = size_t{1} << 20;
  const auto buffer = std::make_unique<char[]>(kChunk);
  const auto zeros = std::make_unique<char[]>(kChunk);
  for (off_t at = 0;;) {
    const ssize_t n = pread(fd_.get(), buffer.get(), kChunk, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EHWPOISON) {
      return absl::DataLossError("pread(memfd): poisoned memory");
    }
    if (n < 0) return ErrnoToStatus(errno, "pread(memfd)");
    if (n == 0) return true;
    if (memcmp(buffer.get(), zeros.get(), static_cast<size_t>(n)) != 0) {
      return false;
    }
    at += n;
  }
}

}  // namespace hugepool::sys
