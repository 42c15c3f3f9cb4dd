#include "daemon/lease/domains.h"

#include <thread>

#include <gtest/gtest.h>

#include "daemon/base/refusal.h"

namespace hugepool {
namespace {

class DomainsTest : public testing::Test {
 protected:
  Domains domains_{{.in_place = false, .quota = GiB(4)},
                   {{"tenants", {.in_place = true, .quota = GiB(1)}},
                    {"free", {.in_place = false, .quota = Bytes(0)}}}};
};

TEST_F(DomainsTest, OneIdForAName) {
  const DomainId a = domains_.Find("tenants");
  EXPECT_TRUE(a.valid());
  EXPECT_EQ(domains_.Find("tenants"), a);
  EXPECT_NE(domains_.Find("uid:1000"), a);
  EXPECT_EQ(domains_.NameOf(a), "tenants");
  EXPECT_EQ(domains_.NameOf(DomainId()), "");
  EXPECT_EQ(domains_.NameOf(DomainId(99)), "");
}

TEST_F(DomainsTest, PolicyByNameElseTheDefault) {
  EXPECT_TRUE(domains_.PolicyOf(domains_.Find("tenants")).in_place);
  EXPECT_EQ(domains_.PolicyOf(domains_.Find("tenants")).quota, GiB(1));
  EXPECT_FALSE(domains_.PolicyOf(domains_.Find("uid:7")).in_place);
  EXPECT_EQ(domains_.PolicyOf(domains_.Find("uid:7")).quota, GiB(4));
  EXPECT_EQ(domains_.PolicyOf(DomainId(99)).quota, GiB(4));
}

TEST_F(DomainsTest, TheQuotaIsExact) {
  const DomainId a = domains_.Find("tenants");
  EXPECT_TRUE(domains_.MayCharge(a, GiB(1)).ok());
  EXPECT_TRUE(domains_.Charge(a, MiB(1022)).ok());
  const absl::Status over = domains_.Charge(a, MiB(4));
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
  const auto refusal = RefusalOf(over);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kQuota);
  EXPECT_EQ(refusal->wanted, MiB(4));
  EXPECT_EQ(refusal->available, MiB(2));
  EXPECT_EQ(over.message(),
            "domain tenants holds 1022 MiB of its quota of 1 GiB; 4 MiB more "
            "are refused");
  EXPECT_TRUE(domains_.Charge(a, MiB(2)).ok()) << "up to the last byte";
  domains_.Discharge(a, GiB(1));
  EXPECT_EQ(domains_.Views()[a.value() - 1].charged, Bytes(0));
}

TEST_F(DomainsTest, AskingDoesNotCharge) {
  const DomainId a = domains_.Find("tenants");
  EXPECT_TRUE(domains_.MayCharge(a, GiB(1)).ok());
  EXPECT_TRUE(domains_.MayCharge(a, GiB(1)).ok());
  EXPECT_EQ(domains_.Views()[a.value() - 1].charged, Bytes(0));
}

TEST_F(DomainsTest, NoQuotaIsNoLimit) {
  const DomainId a = domains_.Find("free");
  EXPECT_TRUE(domains_.Charge(a, Bytes(uint64_t{1} << 62)).ok());
}

TEST_F(DomainsTest, DomainsDoNotShareCharges) {
  const DomainId a = domains_.Find("tenants");
  const DomainId b = domains_.Find("uid:7");
  EXPECT_TRUE(domains_.Charge(a, GiB(1)).ok());
  EXPECT_TRUE(domains_.Charge(b, GiB(4)).ok());
  domains_.CountLease(b, +2);
  domains_.CountLease(b, -1);
  const auto views = domains_.Views();
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].charged, GiB(1));
  EXPECT_EQ(views[1].charged, GiB(4));
  EXPECT_EQ(views[1].leases, 1u);
  EXPECT_EQ(views[1].name, "uid:7");
}

// Two requests that each fit alone: together they never exceed the quota.
TEST_F(DomainsTest, ManyThreadsChargeNoMoreThanTheQuota) {
  const DomainId a = domains_.Find("tenants");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) (void)domains_.Charge(a, MiB(3));
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(domains_.Views()[a.value() - 1].charged, MiB(1023));
}

// Holders that take back what they had given up ask nobody.
TEST_F(DomainsTest, ChargedAnywayTheQuotaIsExceededAndHoldsAgain) {
  const DomainId a = domains_.Find("tenants");
  EXPECT_TRUE(domains_.Charge(a, GiB(1)).ok());
  domains_.ChargeAnyway(a, MiB(2));
  EXPECT_EQ(domains_.Views()[a.value() - 1].charged, GiB(1) + MiB(2));
  EXPECT_FALSE(domains_.MayCharge(a, Bytes(1)).ok());
  domains_.Discharge(a, MiB(4));
  EXPECT_TRUE(domains_.MayCharge(a, MiB(2)).ok());
}

using DomainsDeathTest = DomainsTest;

TEST_F(DomainsDeathTest, DischargingMoreThanWasChargedDies) {
  const DomainId a = domains_.Find("tenants");
  EXPECT_TRUE(domains_.Charge(a, MiB(2)).ok());
  EXPECT_DEATH(domains_.Discharge(a, MiB(4)), "discharged of what it was");
}

}  // namespace
}  // namespace hugepool
