#include "daemon/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace hugepool {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesOnceAndOnlyWhatItOwns) {
  int number = -1;
  {
    UniqueFd a(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(a.valid());
    number = a.get();
    UniqueFd b = std::move(a);
    EXPECT_EQ(b.get(), number);
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFd, ReleaseLeavesTheDescriptorOpen) {
  UniqueFd a(open("/dev/null", O_RDONLY | O_CLOEXEC));
  UniqueFd again(a.release());
  EXPECT_FALSE(a.valid());
  EXPECT_TRUE(IsOpen(again.get()));
}

}  // namespace
}  // namespace hugepool
