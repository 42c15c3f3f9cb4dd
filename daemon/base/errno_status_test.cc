#include "daemon/base/errno_status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace hugepool {
namespace {

TEST(ErrnoStatus, KeepsTheCallAndTheNumber) {
  const absl::Status s = ErrnoToStatus(EBUSY, "fcntl(F_SETLEASE)");
  EXPECT_EQ(ErrnoOf(s), EBUSY);
  EXPECT_NE(s.message().find("fcntl(F_SETLEASE)"), std::string::npos);
}

TEST(ErrnoStatus, RunningOutIsResourceExhausted) {
  for (int e : {ENOMEM, ENOSPC, EMFILE, ENFILE}) {
    EXPECT_EQ(ErrnoToStatus(e, "x").code(),
              absl::StatusCode::kResourceExhausted);
  }
}

TEST(ErrnoStatus, AnnotateKeepsCodeAndErrno) {
  const absl::Status s = Annotate(ErrnoToStatus(ENODEV, "memfd_create"), "2M");
  EXPECT_EQ(ErrnoOf(s), ENODEV);
  EXPECT_EQ(s.message().substr(0, 4), "2M: ");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(ErrnoStatus, OtherStatusesHaveNoErrno) {
  EXPECT_EQ(ErrnoOf(absl::InternalError("x")), 0);
}

}  // namespace
}  // namespace hugepool
