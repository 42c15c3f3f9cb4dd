// Copies of leases, and the last look before a grant.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "daemon/lease/lease_fixture.h"

namespace hugepool {
namespace {

using Op = sys::FakeKernel::Op;

class LeasePrepareTest : public LeaseFixture {
 protected:
  AcquireSpec Copy(uint64_t pages, LeaseId source, Bytes offset = Bytes(0)) {
    AcquireSpec spec = Spec(pages);
    spec.segments[0].copy = CopySource{source, offset};
    return spec;
  }
  // Page `p` of the lease; every extent has its own holder.
  std::pair<sys::FakeHolder*, uint64_t> Page(const Lease& lease, uint64_t p) {
    for (size_t i = 0; i < lease.extents.size(); ++i) {
      const uint64_t pages = k2M.Floor(lease.extents[i].size).value();
      if (p < pages) return {&holders_[lease.id][i], p};
      p -= pages;
    }
    ADD_FAILURE() << "no such page";
    return {nullptr, 0};
  }
  void Write(const Lease& lease, uint64_t p, uint8_t tag) {
    auto [holder, at] = Page(lease, p);
    ASSERT_EQ(holder->Write(at, tag), sys::FakeAccess::kOk);
  }
  int Read(const Lease& lease, uint64_t p) {
    auto [holder, at] = Page(lease, p);
    return *holder->Read(at);
  }
  // Acquires what is prepared first; the answer.
  Result AcquireSettled(SessionId session, const AcquireSpec& spec) {
    auto answer = Acquire(session, spec);
    if (!answer.has_value()) Settle();
    EXPECT_TRUE(answers_[spec.request_id].has_value());
    return *answers_[spec.request_id];
  }
  Lease HoldSettled(SessionId session, const AcquireSpec& spec) {
    Result granted = AcquireSettled(session, spec);
    EXPECT_TRUE(granted.ok()) << granted.status();
    if (!granted.ok()) return Lease{};
    Receive();
    EXPECT_TRUE(Ack(session, granted->lease).ok());
    Settle();
    return granted->lease;
  }
  // What nobody should be able to do: writes to clean memory.
  void Stain(sys::InodeId inode, uint64_t page) {
    sys::FakeHolder ghost = *kernel_.FinishOpen(inode, 0);
    ASSERT_EQ(ghost.Write(page, 0xA5), sys::FakeAccess::kOk);
  }
  void VerifyAtGrant() {
    LeaseManager::Options options;
    options.verify_at_grant = true;
    Make(options);
  }
};

TEST_F(LeasePrepareTest, ACopyHasTheContentOfItsSource) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(6));  // of 4, 1 and 1
  for (uint64_t p = 0; p < 6; ++p) {
    Write(source, p, static_cast<uint8_t>(p + 1));
  }
  const Lease copy = HoldSettled(session, Copy(5, source.id, Pages(1)));
  ASSERT_EQ(copy.size(), Pages(5));
  for (uint64_t p = 0; p < 5; ++p) EXPECT_EQ(Read(copy, p), p + 2) << p;
  // Each goes its own way from here on.
  Write(copy, 0, 99);
  Write(source, 2, 98);
  EXPECT_EQ(Read(source, 1), 2);
  EXPECT_EQ(Read(copy, 1), 3);
}

TEST_F(LeasePrepareTest, WhatIsNotCopiedIsZero) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(1));
  Write(source, 0, 5);
  AcquireSpec spec = Copy(1, source.id);
  spec.segments[0].size = MiB(1);  // half of the page
  SegmentRequest more;
  more.size = Pages(2);
  more.page_sizes = {k2M};
  spec.segments.push_back(more);
  const Lease copy = HoldSettled(session, spec);
  EXPECT_EQ(Read(copy, 0), sys::FakeKernel::kMixed) << "half of it";
  EXPECT_EQ(Read(copy, 1), 0);
  EXPECT_EQ(Read(copy, 2), 0);
}

TEST_F(LeasePrepareTest, ASegmentIsFilledFromSeveralOfTheSource) {
  const auto session = Open(Who(1000)).id;
  AcquireSpec two = Spec(4);
  two.segments.push_back(two.segments[0]);
  two.segments[1].size = Pages(1);
  const Lease source = Hold(session, two);
  for (uint64_t p = 0; p < 5; ++p) {
    Write(source, p, static_cast<uint8_t>(p + 1));
  }
  const Lease copy = HoldSettled(session, Copy(4, source.id, Pages(1)));
  for (uint64_t p = 0; p < 4; ++p) EXPECT_EQ(Read(copy, p), p + 2) << p;
}

TEST_F(LeasePrepareTest, NobodySeesItBeforeItIsWhole) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(4));
  const AcquireSpec spec = Copy(4, source.id);
  EXPECT_FALSE(Acquire(session, spec).has_value());
  executor_.RunDue();
  EXPECT_TRUE(sender_.sent.empty());
  absl::Status again;
  manager_->Acquire(session, spec, [&](Result r) { again = r.status(); });
  EXPECT_EQ(again.code(), absl::StatusCode::kAborted) << "under way";
  Settle();
  EXPECT_EQ(sender_.sent.size(), 1u);
  Receive();
}

TEST_F(LeasePrepareTest, TheSourceStaysUntilItIsCopied) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(4));
  Write(source, 3, 44);
  const AcquireSpec spec = Copy(4, source.id);
  EXPECT_FALSE(Acquire(session, spec).has_value());
  // Released, and nobody has it any more, before a page was copied.
  ASSERT_TRUE(manager_->Release(Who(1000), source.id, "").ok());
  Drop(source.id);
  watch_.Deliver();
  Settle();
  ASSERT_TRUE(answers_[spec.request_id]->ok());
  const Lease copy = (*answers_[spec.request_id])->lease;
  Receive();
  EXPECT_EQ(Read(copy, 3), 44);
  ASSERT_TRUE(Ack(session, copy).ok());
  Settle();
  EXPECT_FALSE(PhaseOf(source.id).has_value()) << "back, once it was read";
}

TEST_F(LeasePrepareTest, OnlyALivingLeaseOfTheDomainIsCopied) {
  const auto session = Open(Who(1000)).id;
  const auto other = Open(Who(1001)).id;
  const Lease source = Hold(session, Spec(1));
  EXPECT_EQ(ReasonOf(Acquire(other, Copy(1, source.id))->status()),
            RefusalReason::kLeaseGone);
  EXPECT_EQ(ReasonOf(Acquire(session, Copy(1, LeaseId(4711)))->status()),
            RefusalReason::kLeaseGone);
  auto unacknowledged = Acquire(session, Spec(1));
  EXPECT_EQ(
      Acquire(session, Copy(1, (*unacknowledged)->lease.id))->status().code(),
      absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(manager_->Release(Who(1000), source.id, "").ok());
  EXPECT_EQ(ReasonOf(Acquire(session, Copy(1, source.id))->status()),
            RefusalReason::kLeaseGone)
      << "released";
  EXPECT_EQ(Charged(Who(1001)), Bytes(0));
  Receive();
}

TEST_F(LeasePrepareTest, TheRangeMustBeInTheLease) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(4));
  for (const AcquireSpec& spec :
       {Copy(5, source.id), Copy(1, source.id, Pages(4)),
        Copy(1, source.id, Pages(4) - Bytes(1)),
        Copy(1, source.id, Bytes(~uint64_t{0}))}) {
    EXPECT_EQ(ReasonOf(Acquire(session, spec)->status()),
              RefusalReason::kBadRequest);
  }
  EXPECT_EQ(Clean(), PageCount(12));
}

TEST_F(LeasePrepareTest, ASourceThatEndsWhileTheCopyWaitsIsAnError) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(8));
  const Lease rest = Hold(session, Spec(8));
  AcquireSpec spec = Copy(8, source.id);
  spec.max_wait = absl::Seconds(10);
  EXPECT_FALSE(Acquire(session, spec).has_value());
  ASSERT_TRUE(manager_->Release(Who(1000), source.id, "").ok());
  Drop(source.id);
  Settle();
  ASSERT_TRUE(answers_[spec.request_id].has_value());
  EXPECT_EQ(ReasonOf(answers_[spec.request_id]->status()),
            RefusalReason::kLeaseGone);
  Settle();
  EXPECT_EQ(Clean(), PageCount(8));
  EXPECT_EQ(Charged(Who(1000)), Pages(8));
}

TEST_F(LeasePrepareTest, WhatCannotBeReadFailsAndGivesTheMemoryBack) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(4));
  kernel_.FailNext(Op::kRead, EHWPOISON);
  const Result failed = AcquireSettled(session, Copy(4, source.id));
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
  Settle();
  EXPECT_EQ(Clean(), PageCount(12));
  EXPECT_EQ(Charged(Who(1000)), Pages(4));
  EXPECT_TRUE(AcquireSettled(session, Copy(4, source.id)).ok());
  Receive();
}

TEST_F(LeasePrepareTest, ASessionThatEndsMeanwhileGetsNothing) {
  const auto session = Open(Who(1000));
  AcquireSpec named = Named(4, "kept");
  const Lease source = Hold(session.id, named);
  const AcquireSpec spec = Copy(4, source.id);
  EXPECT_FALSE(Acquire(session.id, spec).has_value());
  manager_->CloseSession(session.id, session.epoch, /*process_dead=*/true);
  Settle();
  EXPECT_EQ(answers_[spec.request_id]->status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(sender_.sent.empty());
  EXPECT_EQ(Clean(), PageCount(12));
}

TEST_F(LeasePrepareTest, AMemoryLeaseThatIsClosedMeanwhileIsStillCopied) {
  const auto session = Open(Who(1000)).id;
  AcquireSpec memory = Spec(4);
  memory.lifetime = Lifetime::kMemory;
  const Lease source = Hold(session, memory);
  Write(source, 0, 7);
  const AcquireSpec spec = Copy(4, source.id);
  EXPECT_FALSE(Acquire(session, spec).has_value());
  Drop(source.id);
  watch_.Deliver();
  Settle();
  ASSERT_TRUE(answers_[spec.request_id]->ok());
  Receive();
  EXPECT_EQ(Read((*answers_[spec.request_id])->lease, 0), 7);
  Settle();
  EXPECT_FALSE(PhaseOf(source.id).has_value());
}

// --- verify.at_grant --------------------------------------------------------

TEST_F(LeasePrepareTest, WithVerifyAtGrantEveryByteIsLookedAtFirst) {
  VerifyAtGrant();
  const auto session = Open(Who(1000)).id;
  const Lease lease = HoldSettled(session, Spec(6));
  EXPECT_EQ(lease.size(), Pages(6));
  EXPECT_EQ(host_->pools()[0]->Snapshot().verified, Pages(6));
}

TEST_F(LeasePrepareTest, AStainedExtentIsReplacedAndNeverLent) {
  VerifyAtGrant();
  const auto session = Open(Who(1000)).id;
  // All four of four pages are in the request, whichever is taken first.
  std::set<uint64_t> stained;
  for (SlotId slot : table_->Living()) {
    if (table_->pages(slot) == PageCount(4) && stained.size() < 1) {
      // Not told: the watch would have retired it.
      news_.Remove(files_->Get(slot)->inode());
      Stain(files_->Get(slot)->inode(), 2);
      stained.insert(table_->inode(slot));
    }
  }
  ASSERT_EQ(stained.size(), 1u);
  watch_.Deliver();
  const Lease lease = HoldSettled(session, Spec(12));
  EXPECT_EQ(lease.size(), Pages(12));
  for (const TakenExtent& e : lease.extents) {
    EXPECT_FALSE(stained.contains(e.inode));
  }
  for (uint64_t p = 0; p < 12; ++p) EXPECT_EQ(Read(lease, p), 0);
  EXPECT_EQ(host_->pools()[0]->Snapshot().stray, Pages(1).value());
}

// --- verification of the stock ----------------------------------------------

TEST_F(LeasePrepareTest, ARequestWaitsAMomentForWhatIsBeingLookedAt) {
  const auto session = Open(Who(1000)).id;
  Pool& pool = *host_->pools()[0];
  pool.StartVerify(1);
  auto verify = pool.TakeWork(clock_.Now(), std::nullopt);
  ASSERT_TRUE(verify.has_value());
  const AcquireSpec all = Spec(16);  // does not want to wait
  EXPECT_FALSE(Acquire(session, all).has_value());
  PoolNews news =
      pool.Settle(*std::move(verify), WorkOutcome::kDone, "", clock_.Now());
  manager_->OnNews(news);
  ASSERT_TRUE(answers_[all.request_id].has_value());
  EXPECT_TRUE(answers_[all.request_id]->ok());
  pool.CancelVerify(1);
  Receive();
}

TEST_F(LeasePrepareTest, WhatVerificationDoesNotExplainIsRefusedAtOnce) {
  const auto session = Open(Who(1000)).id;
  const Lease held = Hold(session, Spec(4));
  Pool& pool = *host_->pools()[0];
  pool.StartVerify(1);
  auto verify = pool.TakeWork(clock_.Now(), std::nullopt);
  ASSERT_TRUE(verify.has_value());
  EXPECT_EQ(ReasonOf(Acquire(session, Spec(16))->status()),
            RefusalReason::kPoolShort);
  // And where the moment passes it is told what it would have been told.
  const AcquireSpec rest = Spec(12);
  EXPECT_FALSE(Acquire(session, rest).has_value());
  Advance(absl::Seconds(2));
  ASSERT_TRUE(answers_[rest.request_id].has_value());
  EXPECT_EQ(ReasonOf(answers_[rest.request_id]->status()),
            RefusalReason::kPoolShort);
  (void)pool.Settle(*std::move(verify), WorkOutcome::kDone, "", clock_.Now());
  pool.CancelVerify(1);
}

// --- Copies that wait for their memory --------------------------------------

class LeaseFillTest : public LeasePrepareTest {
 protected:
  PageCount Bare() const {
    return host_->pools()[0]->Snapshot().in(ExtentState::kBare);
  }
  // As far as that an extent was made, and nobody was told.
  void StepUntilBare() {
    while (Bare() == PageCount(0)) {
      watch_.Deliver();
      ASSERT_TRUE(stewards_->Step());
    }
  }
  // Settles; whether an extent was made without pages meanwhile.
  bool SettleAndSeeBare() {
    bool bare = false;
    do {
      watch_.Deliver();
      executor_.RunDue();
      if (Bare() > PageCount(0)) bare = true;
    } while (stewards_->Step());
    return bare;
  }
  // A source of 8 pages that say which they are, and a copy of 7.5 of them, from
  // half a page on, that waits for the other 8.
  void StartCopy(AcquireSpec* spec) {
    session_ = Open(Who(1000)).id;
    source_ = HoldSettled(session_, Spec(8));
    const Lease rest = HoldSettled(session_, Spec(8));
    for (uint64_t p = 0; p < 8; ++p) {
      Write(source_, p, static_cast<uint8_t>(p + 1));
    }
    *spec = Copy(7, source_.id, Pages(1));
    spec->max_wait = absl::Seconds(10);
    EXPECT_FALSE(Acquire(session_, *spec).has_value());
    ASSERT_TRUE(manager_->Release(Who(1000), rest.id, "").ok());
    Drop(rest.id);
  }
  void ExpectTheCopy(const AcquireSpec& spec) {
    ASSERT_TRUE(answers_[spec.request_id].has_value());
    ASSERT_TRUE(answers_[spec.request_id]->ok())
        << answers_[spec.request_id]->status();
    const Lease copy = (*answers_[spec.request_id])->lease;
    Receive();
    for (uint64_t p = 0; p < 7; ++p) EXPECT_EQ(Read(copy, p), p + 2) << p;
    EXPECT_TRUE(Ack(session_, copy).ok());
    Settle();
  }
  SessionId session_;
  Lease source_;
};

TEST_F(LeaseFillTest, ItsPagesAreFilledAndNeverCleared) {
  AcquireSpec spec;
  StartCopy(&spec);
  EXPECT_TRUE(SettleAndSeeBare());
  ExpectTheCopy(spec);
}

TEST_F(LeaseFillTest, WhereFillingIsSlowerTheyArePopulated) {
  AcquireSpec spec;
  host_->pools()[0]->LetFill(false);
  StartCopy(&spec);
  EXPECT_FALSE(SettleAndSeeBare());
  ExpectTheCopy(spec);
}

TEST_F(LeaseFillTest, WhereMemoryIsVerifiedAtTheGrantTheyArePopulated) {
  VerifyAtGrant();
  AcquireSpec spec;
  StartCopy(&spec);
  EXPECT_FALSE(SettleAndSeeBare());
}

TEST_F(LeaseFillTest, ALeaseOfWhichOnlyAPartIsCopiedIsPopulated) {
  const auto session = Open(Who(1000)).id;
  const Lease source = Hold(session, Spec(4));
  const Lease rest = Hold(session, Spec(12));
  AcquireSpec spec = Copy(4, source.id);
  spec.segments.push_back(Spec(4).segments[0]);
  spec.max_wait = absl::Seconds(10);
  EXPECT_FALSE(Acquire(session, spec).has_value());
  ASSERT_TRUE(manager_->Release(Who(1000), rest.id, "").ok());
  Drop(rest.id);
  EXPECT_FALSE(SettleAndSeeBare());
  EXPECT_TRUE(answers_[spec.request_id]->ok());
  Receive();
}

TEST_F(LeaseFillTest, WithoutPagesForTheFillItWaitsTheOrdinaryWay) {
  AcquireSpec spec;
  StartCopy(&spec);
  StepUntilBare();
  // Taken by others although it was set aside: as on a kernel whose reservations
  // are host-wide.
  kernel_.FailNextPopulateAfter(PageCount(3));
  EXPECT_TRUE(SettleAndSeeBare());
  ExpectTheCopy(spec);
  EXPECT_EQ(Charged(Who(1000)), Pages(15));
}

TEST_F(LeaseFillTest, ASourceThatCannotBeReadEndsIt) {
  AcquireSpec spec;
  StartCopy(&spec);
  kernel_.FailNext(Op::kRead, EHWPOISON);
  EXPECT_TRUE(SettleAndSeeBare());
  ASSERT_TRUE(answers_[spec.request_id].has_value());
  EXPECT_EQ(answers_[spec.request_id]->status().code(),
            absl::StatusCode::kDataLoss);
  Settle();
  EXPECT_EQ(Clean(), PageCount(8));
  EXPECT_EQ(Charged(Who(1000)), Pages(8));
}

TEST_F(LeaseFillTest, WhenItsClientGoesNothingIsLeft) {
  AcquireSpec spec;
  StartCopy(&spec);
  StepUntilBare();
  const int wakes = wakes_;
  manager_->CancelAcquire(session_, spec.request_id);
  EXPECT_GT(wakes_, wakes);
  Settle();
  EXPECT_EQ(Bare(), PageCount(0));
  EXPECT_EQ(Clean(), PageCount(8));
  EXPECT_EQ(answers_[spec.request_id]->status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace hugepool
