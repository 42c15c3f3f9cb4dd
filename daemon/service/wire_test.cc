#include "daemon/service/wire.h"

#include <limits>

#include "daemon/base/refusal.h"
#include "gtest/gtest.h"

namespace hugepool::service {
namespace {

v1::AcquireRequest Valid() {
  v1::AcquireRequest request;
  request.set_request_id("r");
  request.add_segments()->set_size_bytes(uint64_t{2} << 20);
  return request;
}

RefusalReason ReasonFor(const v1::AcquireRequest& request) {
  const auto spec = SpecFromWire(request, {k1G, k2M});
  const auto refusal = RefusalOf(spec.status());
  return refusal.has_value() ? refusal->reason : RefusalReason::kInternal;
}

template <typename Ours, typename Theirs>
void ExpectEqual(Ours ours, Theirs theirs) {
  EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs));
}

TEST(WireTest, NumbersAreTheProtocols) {
  using R = RefusalReason;
  ExpectEqual(R::kPoolShort, v1::ERROR_REASON_POOL_SHORT);
  ExpectEqual(R::kQuota, v1::ERROR_REASON_QUOTA);
  ExpectEqual(R::kTooManyExtents, v1::ERROR_REASON_TOO_MANY_EXTENTS);
  ExpectEqual(R::kNeverFits, v1::ERROR_REASON_NEVER_FITS);
  ExpectEqual(R::kNoFdChannel, v1::ERROR_REASON_NO_FD_CHANNEL);
  ExpectEqual(R::kUnknownPageSize, v1::ERROR_REASON_UNKNOWN_PAGE_SIZE);
  ExpectEqual(R::kNoSuchNode, v1::ERROR_REASON_NO_SUCH_NODE);
  ExpectEqual(R::kWaitExpired, v1::ERROR_REASON_WAIT_EXPIRED);
  ExpectEqual(R::kNotAllowed, v1::ERROR_REASON_NOT_ALLOWED);
  ExpectEqual(R::kDraining, v1::ERROR_REASON_DRAINING);
  ExpectEqual(R::kLeaseGone, v1::ERROR_REASON_LEASE_GONE);
  ExpectEqual(R::kBadRequest, v1::ERROR_REASON_BAD_REQUEST);
  ExpectEqual(R::kBadFrame, v1::ERROR_REASON_BAD_FRAME);
  ExpectEqual(R::kWrongVersion, v1::ERROR_REASON_WRONG_VERSION);
  ExpectEqual(R::kNameTaken, v1::ERROR_REASON_NAME_TAKEN);
  ExpectEqual(R::kInternal, v1::ERROR_REASON_INTERNAL);
  ExpectEqual(R::kInternal, v1::ErrorReason_MAX);

  ExpectEqual(LeasePhase::kGranted, v1::LEASE_STATE_GRANTED);
  ExpectEqual(LeasePhase::kHeld, v1::LEASE_STATE_HELD);
  ExpectEqual(LeasePhase::kOrphaned, v1::LEASE_STATE_ORPHANED);
  ExpectEqual(LeasePhase::kReturning, v1::LEASE_STATE_RETURNING);
  ExpectEqual(LeasePhase::kReturning, v1::LeaseState_MAX);

  ExpectEqual(Lifetime::kSession, v1::LIFETIME_SESSION);
  ExpectEqual(Lifetime::kMemory, v1::LIFETIME_MEMORY);
  ExpectEqual(Lifetime::kNamed, v1::LIFETIME_NAMED);

  ExpectEqual(ExtentOrigin::kPopulated, v1::ORIGIN_POPULATED);
  ExpectEqual(ExtentOrigin::kClearedInPlace, v1::ORIGIN_CLEARED_IN_PLACE);

  ExpectEqual(LeaseNews::Kind::kGranted, v1::LeaseEvent::KIND_GRANTED);
  ExpectEqual(LeaseNews::Kind::kHeld, v1::LeaseEvent::KIND_HELD);
  ExpectEqual(LeaseNews::Kind::kRolledBack, v1::LeaseEvent::KIND_ROLLED_BACK);
  ExpectEqual(LeaseNews::Kind::kOrphaned, v1::LeaseEvent::KIND_ORPHANED);
  ExpectEqual(LeaseNews::Kind::kResumed, v1::LeaseEvent::KIND_RESUMED);
  ExpectEqual(LeaseNews::Kind::kReleased, v1::LeaseEvent::KIND_RELEASED);
  ExpectEqual(LeaseNews::Kind::kGone, v1::LeaseEvent::KIND_GONE);
  ExpectEqual(LeaseNews::Kind::kRevoked, v1::LeaseEvent::KIND_REVOKED);
  ExpectEqual(WaitNews::Kind::kQueued, v1::WaitEvent::KIND_QUEUED);
  ExpectEqual(WaitNews::Kind::kServed, v1::WaitEvent::KIND_SERVED);
  ExpectEqual(WaitNews::Kind::kExpired, v1::WaitEvent::KIND_EXPIRED);
  ExpectEqual(WaitNews::Kind::kCancelled, v1::WaitEvent::KIND_CANCELLED);
}

TEST(WireTest, ExtentStatesAreTheProtocols) {
  using S = ExtentState;
  ExpectEqual(S::kPopulating, v1::EXTENT_STATE_POPULATING);
  ExpectEqual(S::kClean, v1::EXTENT_STATE_CLEAN);
  ExpectEqual(S::kGranted, v1::EXTENT_STATE_GRANTED);
  ExpectEqual(S::kHeld, v1::EXTENT_STATE_HELD);
  ExpectEqual(S::kReturning, v1::EXTENT_STATE_RETURNING);
  ExpectEqual(S::kProbing, v1::EXTENT_STATE_PROBING);
  ExpectEqual(S::kDirty, v1::EXTENT_STATE_DIRTY);
  ExpectEqual(S::kClearing, v1::EXTENT_STATE_CLEARING);
  ExpectEqual(S::kRetiring, v1::EXTENT_STATE_RETIRING);
  ExpectEqual(S::kSplitting, v1::EXTENT_STATE_SPLITTING);
  ExpectEqual(S::kPreparing, v1::EXTENT_STATE_COPYING);
  ExpectEqual(S::kVerifying, v1::EXTENT_STATE_VERIFYING);
  ExpectEqual(S::kBare, v1::EXTENT_STATE_BARE);
  EXPECT_EQ(kExtentStates - 1, v1::ExtentState_MAX);
}

TEST(WireTest, ReadsARequest) {
  v1::AcquireRequest request = Valid();
  v1::Segment* const segment = request.mutable_segments(0);
  segment->add_page_sizes(uint64_t{1} << 30);
  segment->add_page_sizes(uint64_t{2} << 20);
  segment->mutable_placement()->set_mode(v1::PLACEMENT_MODE_INTERLEAVE);
  segment->mutable_placement()->add_nodes(3);
  segment->set_max_extents(1);
  request.mutable_max_wait()->set_seconds(2);
  request.set_lifetime(v1::LIFETIME_NAMED);
  request.set_name("n");
  request.set_private_(true);
  request.mutable_time_to_live()->set_seconds(60);
  (*request.mutable_labels())["k"] = "v";
  const auto spec = SpecFromWire(request, {k1G, k2M});
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->segments.size(), 1u);
  EXPECT_EQ(spec->segments[0].size, MiB(2));
  EXPECT_EQ(spec->segments[0].page_sizes, (std::vector<PageSize>{k1G, k2M}));
  EXPECT_EQ(spec->segments[0].mode, PlacementMode::kInterleave);
  EXPECT_EQ(spec->segments[0].nodes, std::vector<NodeId>{NodeId(3)});
  EXPECT_EQ(spec->segments[0].max_extents, 1u);
  EXPECT_EQ(spec->max_wait, absl::Seconds(2));
  EXPECT_EQ(spec->lifetime, Lifetime::kNamed);
  EXPECT_TRUE(spec->is_private);
  EXPECT_EQ(spec->time_to_live, absl::Seconds(60));
  EXPECT_EQ(spec->labels.at("k"), "v");
}

TEST(WireTest, DefaultsAreSessionAndAny) {
  const auto spec = SpecFromWire(Valid(), {k1G, k2M});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->lifetime, Lifetime::kSession);
  EXPECT_EQ(spec->segments[0].mode, PlacementMode::kAny);
  EXPECT_EQ(spec->max_wait, absl::ZeroDuration());
  EXPECT_EQ(spec->time_to_live, absl::InfiniteDuration());
}

TEST(WireTest, RefusesSizes) {
  v1::AcquireRequest request = Valid();
  request.mutable_segments(0)->set_size_bytes(0);
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
  request.mutable_segments(0)->set_size_bytes(uint64_t{1} << 63);
  EXPECT_EQ(ReasonFor(request), RefusalReason::kNeverFits);
  // Each fits, their sum would wrap around.
  request.mutable_segments(0)->set_size_bytes(uint64_t{1} << 62);
  for (int i = 0; i < 3; ++i) {
    *request.add_segments() = request.segments(0);
  }
  EXPECT_EQ(ReasonFor(request), RefusalReason::kNeverFits);
  request.clear_segments();
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
  for (int i = 0; i < 513; ++i) request.add_segments()->set_size_bytes(1);
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
}

TEST(WireTest, RefusesPageSizes) {
  for (uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{3} << 20, uint64_t{1} << 63,
        std::numeric_limits<uint64_t>::max()}) {
    v1::AcquireRequest request = Valid();
    request.mutable_segments(0)->add_page_sizes(size);
    EXPECT_EQ(ReasonFor(request), RefusalReason::kUnknownPageSize) << size;
  }
}

TEST(WireTest, RefusesUnknownEnumsAndDurations) {
  v1::AcquireRequest request = Valid();
  request.set_lifetime(static_cast<v1::Lifetime>(17));
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
  request = Valid();
  request.mutable_segments(0)->mutable_placement()->set_mode(
      static_cast<v1::PlacementMode>(17));
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
  request = Valid();
  request.mutable_max_wait()->set_seconds(-1);
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
  request.mutable_max_wait()->set_seconds(1);
  request.mutable_max_wait()->set_nanos(-1);
  EXPECT_EQ(ReasonFor(request), RefusalReason::kBadRequest);
  EXPECT_FALSE(PhaseFromWire(static_cast<v1::LeaseState>(17)).ok());
}

TEST(WireTest, EndlessTimesAreCut) {
  v1::AcquireRequest request = Valid();
  request.mutable_max_wait()->set_seconds(std::numeric_limits<int64_t>::max());
  request.mutable_time_to_live()->set_seconds(
      std::numeric_limits<int64_t>::max());
  const auto spec = SpecFromWire(request, {k1G, k2M});
  ASSERT_TRUE(spec.ok());
  EXPECT_LE(spec->max_wait, absl::Hours(24 * 30));
  EXPECT_EQ(spec->time_to_live, absl::InfiniteDuration());
}

TEST(WireTest, ReadsWhatIsTouchedFirstAndWhatIsCopied) {
  v1::AcquireRequest request = Valid();
  v1::Segment* const segment = request.mutable_segments(0);
  segment->set_hot_offset(segment->size_bytes() - 1);
  segment->mutable_copy_from()->set_lease_id(hugepool::ToWire(LeaseId(77)));
  segment->mutable_copy_from()->set_offset(4096);
  auto spec = SpecFromWire(request, {k1G, k2M});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->segments[0].hot, Bytes(segment->size_bytes() - 1));
  ASSERT_TRUE(spec->segments[0].copy.has_value());
  EXPECT_EQ(spec->segments[0].copy->lease, LeaseId(77));
  EXPECT_EQ(spec->segments[0].copy->offset, Bytes(4096));

  segment->set_hot_offset(segment->size_bytes());
  EXPECT_EQ(ReasonFor(request),
            RefusalReason::kBadRequest);
  segment->clear_hot_offset();
  segment->mutable_copy_from()->set_lease_id("x");
  EXPECT_EQ(ReasonFor(request),
            RefusalReason::kBadRequest);
}

TEST(WireTest, RefusalsTravelInTheDetails) {
  const grpc::Status status = ToGrpc(
      Refuse(Refusal{RefusalReason::kPoolShort, MiB(8), MiB(2), "wait"}, "no"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "no");
  v1::ErrorDetail detail;
  ASSERT_TRUE(detail.ParseFromString(status.error_details()));
  EXPECT_EQ(detail.reason(), v1::ERROR_REASON_POOL_SHORT);
  EXPECT_TRUE(detail.retryable());
  EXPECT_EQ(detail.wanted_bytes(), MiB(8).value());
  EXPECT_EQ(detail.available_bytes(), MiB(2).value());
  EXPECT_EQ(detail.hint(), "wait");
}

TEST(WireTest, OnlyABrokenConnectionHasNoDetail) {
  EXPECT_TRUE(ToGrpc(absl::UnavailableError("x")).error_details().empty());
  EXPECT_FALSE(
      ToGrpc(Refuse(RefusalReason::kDraining, "x")).error_details().empty());
  EXPECT_FALSE(ToGrpc(absl::InternalError("x")).error_details().empty());
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(WireTest, ShowsAPool) {
  PoolSnapshot pool;
  pool.config.node = NodeId(2);
  pool.config.target = PageCount(10);
  pool.pages_by_state[static_cast<size_t>(ExtentState::kReturning)] =
      PageCount(1);
  pool.pages_by_state[static_cast<size_t>(ExtentState::kProbing)] =
      PageCount(2);
  pool.clean[PageCount(1)] = 4;
  pool.wanted[PageCount(16)] = 1;
  pool.charged = PageCount(7);
  pool.kernel = sys::KernelCounters{.total = PageCount(8), .free = PageCount(3)};
  const v1::PoolStatus out = ToWire(pool);
  EXPECT_EQ(out.node(), 2u);
  EXPECT_EQ(out.target_bytes(), MiB(20).value());
  EXPECT_EQ(out.returning_bytes(), MiB(6).value());
  ASSERT_EQ(out.shapes_size(), 2);
  EXPECT_EQ(out.shapes(0).clean(), 4u);
  EXPECT_EQ(out.shapes(1).wanted(), 1u);
  EXPECT_EQ(out.kernel().unaccounted_bytes(), -(int64_t{4} << 20));
}

TEST(WireTest, ShowsProgress) {
  Domains domains({}, {});
  const v1::Event out =
      ToWire(FillProgress{NodeId(3), k1G, GiB(2), GiB(8)}, domains);
  ASSERT_TRUE(out.has_progress());
  EXPECT_EQ(out.progress().node(), 3u);
  EXPECT_EQ(out.progress().page_size(), GiB(1).value());
  EXPECT_EQ(out.progress().clean_bytes(), GiB(2).value());
  EXPECT_EQ(out.progress().target_bytes(), GiB(8).value());
}

}  // namespace
}  // namespace hugepool::service
