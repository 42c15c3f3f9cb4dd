// Parts of a lease are given up: what the daemon hears, and what the process
// can still touch.
#include "client/internal/release_ranges.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "client/internal/errors.h"
#include "client/testing/access.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::client {
namespace {

using ::hugepool::testing::FakeDaemon;
using ::hugepool::testing::Faults;
using ::hugepool::testing::IsWritable;
using ::hugepool::testing::TestDir;
using ::testing::HasSubstr;

// Over the fd channel, and over gRPC.
class ReleaseRangesTest : public ::testing::TestWithParam<bool> {
 protected:
  ReleaseRangesTest() : daemon_({.dir = dir_.path()}) { daemon_.Start(); }

  // Segments of 8 MiB in extents of one page, with a letter in every page.
  HeldLease Acquire(int segments = 1, const MapOptions& options = {},
                    absl::Duration call_timeout = absl::Seconds(10)) {
    auto connection = Connection::Connect({.dir = dir_.path(),
                                           .reconnect_budget = budget_,
                                           .call_timeout = call_timeout,
                                           .over_grpc = GetParam()});
    EXPECT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
    v1::AcquireRequest request;
    for (int i = 0; i < segments; ++i) {
      request.add_segments()->set_size_bytes(MiB(8).value());
    }
    request.set_lifetime(v1::LIFETIME_SESSION);
    auto held = connection_->Acquire(request, options);
    EXPECT_TRUE(held.ok()) << held.status();
    for (const MappedRange& segment : held->segments) {
      for (uint64_t page = 0; page < 4; ++page) *At(segment, page) = 'a';
    }
    return *std::move(held);
  }
  static char* At(const MappedRange& segment, uint64_t page) {
    return static_cast<char*>(segment.address()) + MiB(2 * page).value();
  }
  // Which pages are of use: "1011".
  static std::string Pages(const HeldLease& held, int segment = 0) {
    std::string text;
    for (uint64_t page = 0; page < 4; ++page) {
      text += IsWritable(At(held.segments[segment], page)) ? '1' : '0';
    }
    return text;
  }
  std::string ReleasedPages(const HeldLease& held, uint32_t segment = 0) {
    std::string text;
    for (uint64_t page = 0; page < 4; ++page) {
      text += daemon_.IsReleased(held.lease.lease_id(), segment, MiB(2 * page))
                  ? '1'
                  : '0';
    }
    return text;
  }
  absl::Status Release(HeldLease* held, std::vector<LeaseRange> ranges) {
    return ReleaseRanges(connection_.get(), held, ranges);
  }

  TestDir dir_;
  FakeDaemon daemon_;
  absl::Duration budget_ = absl::Seconds(2);
  std::shared_ptr<Connection> connection_;
};

INSTANTIATE_TEST_SUITE_P(Calls, ReleaseRangesTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "OverGrpc" : "OverTheFdChannel";
                         });

TEST_P(ReleaseRangesTest, One) {
  HeldLease held = Acquire();
  const absl::Status status = Release(&held, {{0, MiB(2), MiB(2)}});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Pages(held), "1011");
  EXPECT_EQ(ReleasedPages(held), "0100");
  EXPECT_EQ(*(At(held.segments[0], 2) + 1), 0);
  // The lease goes on, and ends as ever.
  EXPECT_EQ(daemon_.lease_count(), 1u);
  EXPECT_TRUE(connection_->Release(held.lease.lease_id()).ok());
  EXPECT_EQ(daemon_.lease_count(), 0u);
}

TEST_P(ReleaseRangesTest, ManyOfSeveralSegmentsInOneCall) {
  HeldLease held = Acquire(2);
  const size_t before = daemon_.fds().calls();
  const absl::Status status = Release(&held, {{1, MiB(0), MiB(2)},
                                              {0, MiB(6), MiB(2)},
                                              {0, MiB(0), MiB(2)},
                                              {1, MiB(4), MiB(4)}});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Pages(held, 0), "0110");
  EXPECT_EQ(Pages(held, 1), "0100");
  EXPECT_EQ(ReleasedPages(held, 0), "1001");
  EXPECT_EQ(ReleasedPages(held, 1), "1011");
  EXPECT_EQ(daemon_.fds().calls() - before, GetParam() ? 0u : 1u);
}

TEST_P(ReleaseRangesTest, AcrossExtents) {
  HeldLease held = Acquire();
  ASSERT_EQ(held.fds->size(), 4u);
  EXPECT_TRUE(Release(&held, {{0, MiB(0), MiB(8)}}).ok());
  EXPECT_EQ(Pages(held), "0000");
  EXPECT_EQ(ReleasedPages(held), "1111");
  EXPECT_EQ(daemon_.lease_count(), 1u) << "all pages are not the lease";
}

TEST_P(ReleaseRangesTest, ATouchEndsTheProgram) {
  HeldLease held = Acquire();
  ASSERT_TRUE(Release(&held, {{0, MiB(2), MiB(2)}}).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *const_cast<volatile char*>(At(held.segments[0], 1)) = 1;
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST_P(ReleaseRangesTest, WithoutMapping) {
  HeldLease held = Acquire(1, {.map = false});
  const absl::Status status = Release(&held, {{0, MiB(4), MiB(4)}});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReleasedPages(held), "0011");
  EXPECT_EQ(Release(&held, {{0, MiB(4), MiB(2)}}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(ReleaseRangesTest, WhatTheLibraryKnowsIsRefusedWithoutTheDaemon) {
  HeldLease held = Acquire();
  ASSERT_TRUE(Release(&held, {{0, MiB(0), MiB(2)}}).ok());
  daemon_.Stop();
  EXPECT_EQ(Release(&held, {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Release(&held, {{0, MiB(2), MiB(8)}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Release(&held, {{0, MiB(2), MiB(2)}, {0, MiB(0), MiB(2)}}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Pages(held), "0111");
}

// By accident that would be the whole lease.
TEST_P(ReleaseRangesTest, AnEmptyListNeverReachesTheDaemon) {
  HeldLease held = Acquire();
  const absl::Status status = Release(&held, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_BAD_REQUEST);
  v1::ReleaseRequest request;
  request.set_lease_id(held.lease.lease_id());
  Connection::Tries tries;
  EXPECT_EQ(connection_->ReleaseParts(request, &tries).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(daemon_.lease_count(), 1u);
  EXPECT_EQ(Pages(held), "1111");
}

// Past the library's own checks.
TEST_P(ReleaseRangesTest, TheDaemonsRefusalsComeThrough) {
  HeldLease held = Acquire();
  const auto send = [&](uint32_t segment, Bytes offset, Bytes size) {
    v1::ReleaseRequest request;
    request.set_lease_id(held.lease.lease_id());
    auto* const range = request.add_ranges();
    range->set_segment(segment);
    range->set_offset(offset.value());
    range->set_size_bytes(size.value());
    Connection::Tries tries;
    auto released = connection_->ReleaseParts(request, &tries);
    EXPECT_FALSE(tries.unsure);
    return released;
  };
  for (const auto& bad : {send(1, MiB(0), MiB(2)), send(0, MiB(0), MiB(0)),
                          send(0, MiB(1), MiB(2)), send(0, MiB(8), MiB(2)),
                          send(0, Bytes(~uint64_t{0} << 21), MiB(2))}) {
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(bad.status()), v1::ERROR_REASON_BAD_REQUEST);
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("the daemon"));
  }
  const auto good = send(0, MiB(0), MiB(4));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(*good, MiB(4));
  EXPECT_EQ(send(0, MiB(2), MiB(4)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReleasedPages(held), "1100");
}

TEST_P(ReleaseRangesTest, ARefusalGivesAccessBack) {
  HeldLease held = Acquire();
  const std::vector<LeaseRange> ranges = {{0, MiB(0), MiB(2)},
                                          {0, MiB(4), MiB(4)}};
  Faults faults;
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnimplemented, absl::StatusCode::kInvalidArgument,
        absl::StatusCode::kFailedPrecondition}) {
    faults.deny_parts = code;
    daemon_.SetFaults(faults);
    const absl::Status status = Release(&held, ranges);
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr("no parts today"));
    EXPECT_EQ(Pages(held), "1111");
    EXPECT_EQ(*(At(held.segments[0], 3) + 1), 0);
  }
  daemon_.SetFaults({});
  EXPECT_TRUE(Release(&held, ranges).ok());
  EXPECT_EQ(Pages(held), "0100");
}

// hpctl, or another process that is attached.
TEST_P(ReleaseRangesTest, WhatSomebodyElseReleased) {
  HeldLease held = Acquire();
  v1::ReleaseRequest request;
  request.set_lease_id(held.lease.lease_id());
  request.add_ranges()->set_size_bytes(MiB(2).value());
  Connection::Tries tries;
  ASSERT_TRUE(connection_->ReleaseParts(request, &tries).ok());
  const absl::Status status = Release(&held, {{0, MiB(0), MiB(4)}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReleasedPages(held), "1000");
  EXPECT_TRUE(Release(&held, {{0, MiB(2), MiB(2)}}).ok());
}

TEST_P(ReleaseRangesTest, AfterTheLeaseHasEnded) {
  HeldLease held = Acquire();
  ASSERT_TRUE(connection_->Release(held.lease.lease_id()).ok());
  const absl::Status status = Release(&held, {{0, MiB(0), MiB(2)}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_LEASE_GONE);
  EXPECT_EQ(Pages(held), "1111");
}

TEST_P(ReleaseRangesTest, WithoutADaemonNothingHappens) {
  budget_ = absl::ZeroDuration();
  HeldLease held = Acquire();
  daemon_.Stop();
  const absl::Status status = Release(&held, {{0, MiB(0), MiB(2)}});
  EXPECT_TRUE(IsTransportFailure(status)) << status;
  EXPECT_EQ(Pages(held), "1111");
}

// The second try is told that the first one did it.
TEST_P(ReleaseRangesTest, ALostReplyIsNoError) {
  HeldLease held = Acquire();
  Faults faults;
  faults.lose_parts_reply = 1;
  daemon_.SetFaults(faults);
  const absl::Status status = Release(&held, {{0, MiB(2), MiB(4)}});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Pages(held), "1001");
  EXPECT_EQ(ReleasedPages(held), "0110");
}

TEST_P(ReleaseRangesTest, WithoutAnAnswerTheRangesStayOutOfReach) {
  budget_ = absl::ZeroDuration();
  HeldLease held = Acquire();
  Faults faults;
  faults.lose_parts_reply = 1;
  daemon_.SetFaults(faults);
  const std::vector<LeaseRange> ranges = {{0, MiB(0), MiB(2)},
                                          {0, MiB(4), MiB(2)}};
  const absl::Status status = Release(&held, ranges);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("whether the daemon took the ranges is not known"));
  EXPECT_EQ(Pages(held), "0101") << "they may be somebody else's";
  EXPECT_EQ(Release(&held, {ranges[0]}).code(),
            absl::StatusCode::kFailedPrecondition);
  // The daemon has them; the same call makes it sure, once.
  EXPECT_TRUE(Release(&held, ranges).ok());
  EXPECT_EQ(Pages(held), "0101");
  EXPECT_EQ(Release(&held, ranges).code(),
            absl::StatusCode::kFailedPrecondition);
}

// ABORTED is no word on what was done.
TEST_P(ReleaseRangesTest, ACallThatWasAbortedCanBeMadeAgain) {
  HeldLease held = Acquire();
  Faults faults;
  faults.deny_parts = absl::StatusCode::kAborted;
  daemon_.SetFaults(faults);
  const std::vector<LeaseRange> ranges = {{0, MiB(0), MiB(2)}};
  EXPECT_EQ(Release(&held, ranges).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Pages(held), "0111");
  daemon_.SetFaults({});
  EXPECT_TRUE(Release(&held, ranges).ok());
  EXPECT_EQ(ReleasedPages(held), "1000");
}

// What it says then looks like a refusal.
TEST_P(ReleaseRangesTest, ADaemonThatEndsTheConnectionHasNotRefused) {
  if (GetParam()) GTEST_SKIP() << "gRPC has answers only";
  budget_ = absl::ZeroDuration();
  HeldLease held = Acquire();
  Faults faults;
  faults.goodbye_to_parts = true;
  daemon_.SetFaults(faults);
  const absl::Status status = Release(&held, {{0, MiB(0), MiB(2)}});
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not known"));
  EXPECT_EQ(ReleasedPages(held), "1000");
  EXPECT_EQ(Pages(held), "0111");
}

TEST_P(ReleaseRangesTest, ACallThatWasNotHeardCanBeMadeAgain) {
  if (GetParam()) GTEST_SKIP() << "the fake is silent on the fd channel only";
  HeldLease held = Acquire(1, {}, absl::Milliseconds(50));
  Faults faults;
  faults.silent = true;
  daemon_.SetFaults(faults);
  const std::vector<LeaseRange> ranges = {{0, MiB(6), MiB(2)}};
  EXPECT_EQ(Release(&held, ranges).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Pages(held), "1110");
  EXPECT_EQ(ReleasedPages(held), "0000");
  // A refusal does not show what became of the first call.
  faults.silent = false;
  faults.deny_parts = absl::StatusCode::kInvalidArgument;
  daemon_.SetFaults(faults);
  EXPECT_EQ(Release(&held, ranges).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Pages(held), "1110");
  daemon_.SetFaults({});
  EXPECT_TRUE(Release(&held, ranges).ok());
  EXPECT_EQ(ReleasedPages(held), "0001");
}

TEST_P(ReleaseRangesTest, AForkedChildIsRefusedAndKeepsItsAccess) {
  HeldLease held = Acquire();
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = Release(&held, {{0, MiB(0), MiB(2)}});
    *At(held.segments[0], 0) = 'c';
    _exit(absl::IsFailedPrecondition(status) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*At(held.segments[0], 0), 'c');
  EXPECT_EQ(ReleasedPages(held), "0000");
}

TEST_P(ReleaseRangesTest, WhatDoesNotFitIntoAFrameGoesOverGrpc) {
  daemon_.Stop();
  FakeDaemon small_pages({.dir = dir_.path(),
                          .page_size = PageSize::FromShift(12),
                          .pages_per_extent = 1 << 20});
  small_pages.Start();
  HeldLease held = Acquire(10, {.map = false});
  const auto every_other = [](uint32_t segments) {
    std::vector<LeaseRange> ranges;
    for (uint32_t segment = segments == 1 ? 9 : 0;
         ranges.size() < segments * 1024; ++segment) {
      for (uint64_t i = 0; i < 1024; ++i) {
        ranges.push_back({segment, KiB(8 * i), KiB(4)});
      }
    }
    return ranges;
  };
  const size_t before = small_pages.fds().calls();
  absl::Status status = Release(&held, every_other(9));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(small_pages.fds().calls(), before) << "9,216 ranges";
  status = Release(&held, every_other(1));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(small_pages.fds().calls() - before, GetParam() ? 0u : 1u);
  const std::string& id = held.lease.lease_id();
  EXPECT_TRUE(small_pages.IsReleased(id, 8, KiB(8 * 1023)));
  EXPECT_FALSE(small_pages.IsReleased(id, 8, KiB(8 * 1023 + 4)));
  EXPECT_TRUE(small_pages.IsReleased(id, 9, KiB(0)));
}

}  // namespace
}  // namespace hugepool::client
