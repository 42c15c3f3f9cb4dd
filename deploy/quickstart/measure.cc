#include "deploy/quickstart/measure.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

// Since Linux 5.14; older C libraries do not name it.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace hugepool::measure {
namespace {

// MAP_HUGE_2MB and its like: the binary logarithm of the page size.
int HugeFlag(std::size_t page_size) {
  return __builtin_ctzll(page_size) << MAP_HUGE_SHIFT;
}

}  // namespace

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(
      std::lround(part * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

void TouchEveryPage(void* data, std::size_t bytes, std::size_t page_size) {
  // volatile: both the load and the store happen.
  volatile unsigned char* const p = static_cast<unsigned char*>(data);
  for (std::size_t at = 0; at < bytes; at += page_size) p[at] = p[at];
}

bool AllBytesAre(const void* data, std::size_t bytes, unsigned char byte) {
  const unsigned char* const p = static_cast<const unsigned char*>(data);
  return bytes == 0 || (p[0] == byte && std::memcmp(p, p + 1, bytes - 1) == 0);
}

KernelMemory::KernelMemory(std::size_t bytes, std::size_t page_size,
                           KernelWay way)
    : bytes_(bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (way != KernelWay::kTransparent)
    flags |= MAP_HUGETLB | HugeFlag(page_size);
  if (way == KernelWay::kPopulate) flags |= MAP_POPULATE;
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED) return;
  data_ = p;
  if (!Populate(way)) {
    const int error_number = errno;
    munmap(p, bytes);
    data_ = nullptr;
    errno = error_number;
  }
}

bool KernelMemory::Populate(KernelWay way) {
  char* const begin = static_cast<char*>(data_);
  if (way == KernelWay::kPopulate) return true;
  if (way == KernelWay::kTransparent) {
    madvise(begin, bytes_, MADV_HUGEPAGE);  // a kernel without it still serves
    return madvise(begin, bytes_, MADV_POPULATE_WRITE) == 0;
  }
  const std::size_t half = bytes_ / 2;
  int other = 0;
  std::thread second([&] {
    other = madvise(begin + half, bytes_ - half, MADV_POPULATE_WRITE) == 0
                ? 0
                : errno;
  });
  const int first = madvise(begin, half, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  second.join();
  errno = first != 0 ? first : other;
  return errno == 0;
}

KernelMemory::~KernelMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

double KernelReadyMicros(std::size_t bytes, std::size_t page_size,
                         KernelWay way) {
  const Stopwatch watch;
  const KernelMemory memory(bytes, page_size, way);
  if (memory.data() == nullptr) return -1;
  TouchEveryPage(memory.data(), bytes, page_size);
  return watch.Micros();
}

std::string SizeName(std::size_t bytes) {
  static constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  int unit = 0;
  while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

std::string RatioText(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, ratio < 9.95 ? "%.1f" : "%.0f", ratio);
  return text;
}

}  // namespace hugepool::measure
