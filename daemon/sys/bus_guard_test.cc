#include "daemon/sys/bus_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.h"

namespace hugepool::sys {
namespace {

// Two pages of a file that has only one: the second is SIGBUS.
class CutFile {
 public:
  CutFile() : fd_(memfd_create("cut", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_.get(), page_), 0);
    data_ = static_cast<char*>(mmap(nullptr, 2 * static_cast<size_t>(page_),
                                    PROT_READ | PROT_WRITE, MAP_SHARED,
                                    fd_.get(), 0));
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~CutFile() { munmap(data_, 2 * static_cast<size_t>(page_)); }
  char* good() { return data_; }
  char* bad() { return data_ + page_; }

 private:
  const long page_ = sysconf(_SC_PAGESIZE);
  UniqueFd fd_;
  char* data_ = nullptr;
};

TEST(BusGuardTest, WhatCanBeTouchedIs) {
  CutFile file;
  EXPECT_FALSE(Guarded([&] { *file.good() = 1; }).has_value());
  EXPECT_EQ(*file.good(), 1);
}

TEST(BusGuardTest, SaysWhereAndGoesOn) {
  CutFile file;
  for (int i = 0; i < 3; ++i) {
    const auto fault = Guarded([&] { *(file.bad() + i) = 1; });
    ASSERT_TRUE(fault.has_value());
    EXPECT_EQ(fault->address, file.bad() + i);
    EXPECT_FALSE(fault->poisoned);
    EXPECT_FALSE(Guarded([&] { *file.good() = 2; }).has_value());
  }
}

TEST(BusGuardTest, EveryThreadHasItsOwn) {
  CutFile file;
  std::vector<std::thread> threads;
  std::atomic<int> faults{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (Guarded([&] { *file.bad() = 1; })) ++faults;
        if (Guarded([&] { (void)*static_cast<volatile char*>(file.good()); })) {
          ADD_FAILURE() << "the good page faulted";
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(faults, 800);
}

TEST(BusGuardTest, OutsideOfAGuardTheProcessEnds) {
  CutFile file;
  ASSERT_FALSE(Guarded([&] { *file.good() = 1; }).has_value());
  EXPECT_EXIT({ *static_cast<volatile char*>(file.bad()) = 1; },
              testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace hugepool::sys
