// A process that has as many mappings as vm.max_map_count lets it have.
#ifndef HUGEPOOL_CLIENT_TESTING_MAPPINGS_USED_UP_H_
#define HUGEPOOL_CLIENT_TESTING_MAPPINGS_USED_UP_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace hugepool::testing {

// Uses them up while it lives. Not under a sanitizer, which needs some itself.
class MappingsUsedUp {
 public:
  static uint64_t Limit() {
    uint64_t limit = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> limit;
    return limit;
  }
  // Whether that is few enough to be tried.
  static bool Possible() { return Limit() != 0 && Limit() <= 200'000; }

  MappingsUsedUp() : pages_(Limit() + 2) {
    // Every second page readable: one mapping a page.
    void* const area = mmap(nullptr, pages_ * kPage, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) std::abort();
    area_ = static_cast<char*>(area);
    for (size_t i = 0; i < pages_; i += 2) {
      if (mprotect(area_ + i * kPage, kPage, PROT_READ) != 0) break;
    }
    // The last places, which mprotect cannot use since it needs two at a time.
    last_.reserve(64);
    for (;;) {
      void* const one =
          mmap(nullptr, kPage, last_.size() % 2 != 0 ? PROT_READ : PROT_NONE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (one == MAP_FAILED) break;
      last_.push_back(one);
    }
  }
  ~MappingsUsedUp() {
    munmap(area_ + freed_ * kPage, (pages_ - freed_) * kPage);
    for (void* const one : last_) munmap(one, kPage);
  }
  MappingsUsedUp(const MappingsUsedUp&) = delete;
  MappingsUsedUp& operator=(const MappingsUsedUp&) = delete;

  void FreeOne() { munmap(area_ + freed_++ * kPage, kPage); }

 private:
  static constexpr size_t kPage = 4096;
  const size_t pages_;
  char* area_ = nullptr;
  size_t freed_ = 0;
  std::vector<void*> last_;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_MAPPINGS_USED_UP_H_
