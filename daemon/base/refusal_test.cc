#include "daemon/base/refusal.h"

#include <gtest/gtest.h>

#include "daemon/base/errno_status.h"

namespace hugepool {
namespace {

using enum RefusalReason;

struct Expected {
  RefusalReason reason;
  absl::StatusCode code;
  bool retryable;
};

constexpr Expected kAll[] = {
    {kPoolShort, absl::StatusCode::kResourceExhausted, true},
    {kQuota, absl::StatusCode::kResourceExhausted, true},
    {kTooManyExtents, absl::StatusCode::kResourceExhausted, false},
    {kNeverFits, absl::StatusCode::kFailedPrecondition, false},
    {kNoFdChannel, absl::StatusCode::kFailedPrecondition, false},
    {kUnknownPageSize, absl::StatusCode::kInvalidArgument, false},
    {kNoSuchNode, absl::StatusCode::kInvalidArgument, false},
    {kWaitExpired, absl::StatusCode::kDeadlineExceeded, true},
    {kNotAllowed, absl::StatusCode::kPermissionDenied, false},
    {kDraining, absl::StatusCode::kUnavailable, true},
    {kLeaseGone, absl::StatusCode::kNotFound, false},
    {kBadRequest, absl::StatusCode::kInvalidArgument, false},
    {kBadFrame, absl::StatusCode::kInvalidArgument, false},
    {kWrongVersion, absl::StatusCode::kFailedPrecondition, false},
    {kNameTaken, absl::StatusCode::kAlreadyExists, false},
    {kInternal, absl::StatusCode::kInternal, false},
};

TEST(Refusal, EveryReasonHasItsCodeAndSaysWhetherToTryAgain) {
  int number = 1;
  for (const Expected& e : kAll) {
    EXPECT_EQ(static_cast<int>(e.reason), number++);
    EXPECT_EQ(CodeOf(e.reason), e.code) << static_cast<int>(e.reason);
    EXPECT_EQ(Retryable(e.reason), e.retryable) << static_cast<int>(e.reason);
    EXPECT_EQ(Refuse(e.reason, "x").code(), e.code);
  }
}

TEST(Refusal, ComesBackOutOfTheStatusAsItWentIn) {
  // The hint may have the separator in it.
  const Refusal in{kQuota, GiB(3), MiB(512), "release | or raise the quota"};
  const absl::Status status = Refuse(in, "domain a holds 1 GiB");
  EXPECT_EQ(status.message(), "domain a holds 1 GiB");
  const auto out = RefusalOf(status);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->reason, kQuota);
  EXPECT_EQ(out->wanted, GiB(3));
  EXPECT_EQ(out->available, MiB(512));
  EXPECT_EQ(out->hint, "release | or raise the quota");
}

TEST(Refusal, WithoutFiguresHasZeroes) {
  const auto out = RefusalOf(Refuse(kLeaseGone, "gone", "look again"));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->wanted, Bytes(0));
  EXPECT_EQ(out->available, Bytes(0));
  EXPECT_EQ(out->hint, "look again");
}

TEST(Refusal, LargestFiguresSurvive) {
  const auto out =
      RefusalOf(Refuse(Refusal{kNeverFits, Bytes(~uint64_t{0}), {}, ""}, "x"));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->wanted, Bytes(~uint64_t{0}));
  EXPECT_EQ(out->hint, "");
}

TEST(Refusal, AnotherStatusIsNone) {
  EXPECT_FALSE(RefusalOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(RefusalOf(absl::InternalError("x")).has_value());
  EXPECT_FALSE(RefusalOf(ErrnoToStatus(12, "mmap")).has_value());
}

TEST(Refusal, SurvivesAnAnnotation) {
  const auto out =
      RefusalOf(Annotate(Refuse(kNoSuchNode, "node 7", "nodes: 0"), "segment 1"));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->reason, kNoSuchNode);
}

}  // namespace
}  // namespace hugepool
