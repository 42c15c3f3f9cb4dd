#include <gtest/gtest.h>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using enum RefusalReason;

class LeaseViewsTest : public LeaseFixture {
 protected:
  std::vector<LeaseId> Ids(const Identity& caller, LeaseId after = LeaseId(),
                           size_t limit = 100,
                           std::optional<LeasePhase> phase = std::nullopt) {
    std::vector<LeaseId> ids;
    for (const Lease& l : manager_->List(caller, after, limit, phase)) {
      ids.push_back(l.id);
    }
    return ids;
  }
  const Identity who_ = Who(1000);
  const Identity other_ = Who(1001);
  LeaseManager::SessionInfo session_ = Open(who_);
  LeaseManager::SessionInfo foreign_ = Open(other_);
};

TEST_F(LeaseViewsTest, EverybodySeesTheOwnDomainAndTheAdminAll) {
  const Lease a = Hold(session_.id, Spec(1));
  const Lease b = Hold(foreign_.id, Spec(1));
  EXPECT_EQ(Ids(who_), std::vector<LeaseId>{a.id});
  EXPECT_EQ(Ids(other_), std::vector<LeaseId>{b.id});
  EXPECT_EQ(Ids(Admin()), (std::vector<LeaseId>{a.id, b.id}));
  EXPECT_TRUE(manager_->Get(who_, a.id, "").ok());
  EXPECT_EQ(ReasonOf(manager_->Get(who_, b.id, "").status()), kLeaseGone);
  EXPECT_TRUE(manager_->Get(Admin(), b.id, "").ok());
}

TEST_F(LeaseViewsTest, ByNameWithinTheDomain) {
  const Lease named = Hold(session_.id, Named(1, "pg"));
  EXPECT_EQ(manager_->Get(who_, LeaseId(), "pg")->id, named.id);
  EXPECT_EQ(ReasonOf(manager_->Get(other_, LeaseId(), "pg").status()),
            kLeaseGone);
}

// N9: pages of a list are continued by the last id.
TEST_F(LeaseViewsTest, ListsGoOnAfterAnId) {
  std::vector<LeaseId> all;
  for (int i = 0; i < 3; ++i) all.push_back(Hold(session_.id, Spec(1)).id);
  std::vector<LeaseId> got;
  LeaseId after;
  while (true) {
    const auto page = Ids(who_, after, 2);
    EXPECT_LE(page.size(), 2u);
    if (page.empty()) break;
    got.insert(got.end(), page.begin(), page.end());
    after = page.back();
  }
  EXPECT_EQ(got, all);
}

TEST_F(LeaseViewsTest, ListsByPhase) {
  const Lease held = Hold(session_.id, Spec(1));
  const Lease granted = (*Acquire(session_.id, Spec(1)))->lease;
  const Lease returning = Hold(session_.id, Spec(1));
  EXPECT_TRUE(manager_->Release(who_, returning.id, "").ok());
  EXPECT_EQ(Ids(who_, {}, 9, LeasePhase::kHeld), std::vector<LeaseId>{held.id});
  EXPECT_EQ(Ids(who_, {}, 9, LeasePhase::kGranted),
            std::vector<LeaseId>{granted.id});
  EXPECT_EQ(Ids(who_, {}, 9, LeasePhase::kReturning),
            std::vector<LeaseId>{returning.id});
  EXPECT_TRUE(Ids(who_, {}, 9, LeasePhase::kOrphaned).empty());
  EXPECT_EQ(manager_->Count().leases, 3u);
  EXPECT_EQ(manager_->Count().sessions, 2u);
}

TEST_F(LeaseViewsTest, TheAuditSeesAChargeThatNoLeaseExplains) {
  Hold(session_.id, Spec(1));
  EXPECT_TRUE(manager_->CheckInvariants().ok());
  ASSERT_TRUE(domains_->Charge(who_.domain, Pages(1)).ok());
  const absl::Status wrong = manager_->CheckInvariants();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(wrong.message(),
            "domain uid:1000 is charged 4 MiB, its leases have 2 MiB");
  domains_->Discharge(who_.domain, Pages(1));
}

TEST_F(LeaseViewsTest, TheAuditSeesALedgerThatContradicts) {
  const Lease held = Hold(session_.id, Spec(1));
  const SlotId slot = held.extents[0].slot;
  table_->set_lease(slot, LeaseId(4711));
  EXPECT_EQ(manager_->CheckInvariants().code(), absl::StatusCode::kInternal);
  table_->set_lease(slot, held.id);
}

}  // namespace
}  // namespace hugepool
