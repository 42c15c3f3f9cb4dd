// What the quickstart and the benches measure with: memory as a program gets it
// from the kernel, looks at all of it, times and medians.
#ifndef HUGEPOOL_DEPLOY_QUICKSTART_MEASURE_H_
#define HUGEPOOL_DEPLOY_QUICKSTART_MEASURE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hugepool::measure {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

// Microseconds since it was made.
class Stopwatch {
 public:
  double Micros() const {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

// The value at `part` (0 to 1) of the sorted values: 0.5 is the median. 0 where
// there are none.
double Quantile(std::vector<double> values, double part);
inline double Median(std::vector<double> values) {
  return Quantile(std::move(values), 0.5);
}

// Reads and writes a byte of every page, without changing it.
void TouchEveryPage(void* data, std::size_t bytes, std::size_t page_size);
// Whether all bytes are `byte`.
bool AllBytesAre(const void* data, std::size_t bytes, unsigned char byte);

// How a program gets memory of the kernel without hugepool.
enum class KernelWay {
  kPopulate,     // mmap(MAP_HUGETLB | MAP_POPULATE)
  kTwoThreads,   // mmap(MAP_HUGETLB), MADV_POPULATE_WRITE by two on half each
  kTransparent,  // mmap, MADV_HUGEPAGE, MADV_POPULATE_WRITE: no huge pages
};

// A mapping of the kernel's; unmapped at the end. Move is not needed.
class KernelMemory {
 public:
  // data() is nullptr where the kernel has none to give; errno tells why.
  KernelMemory(std::size_t bytes, std::size_t page_size, KernelWay way);
  ~KernelMemory();
  KernelMemory(const KernelMemory&) = delete;
  KernelMemory& operator=(const KernelMemory&) = delete;

  void* data() const { return data_; }

 private:
  bool Populate(KernelWay way);

  void* data_ = nullptr;
  const std::size_t bytes_;
};

// Microseconds until every page was there and touched; negative where the
// kernel has none to give.
double KernelReadyMicros(std::size_t bytes, std::size_t page_size,
                         KernelWay way);

// "1G", "2M", "64K".
std::string SizeName(std::size_t bytes);
// "412", "7.3": as many digits as a ratio deserves.
std::string RatioText(double ratio);

}  // namespace hugepool::measure

#endif  // HUGEPOOL_DEPLOY_QUICKSTART_MEASURE_H_
