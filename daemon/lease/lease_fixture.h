// Leases over pools on the model of the kernel, without threads, for tests.
#ifndef HUGEPOOL_DAEMON_LEASE_LEASE_FIXTURE_H_
#define HUGEPOOL_DAEMON_LEASE_LEASE_FIXTURE_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/base/refusal.h"
#include "daemon/clear/engine.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/reclaim/holder_news.h"
#include "daemon/reclaim/steward.h"
#include "daemon/sys/fake_huge_memory.h"
#include "daemon/sys/fd_vault.h"

namespace hugepool {

class LeaseFixture : public testing::Test {
 protected:
  using Granted = LeaseManager::Granted;
  using Result = absl::StatusOr<Granted>;
  static constexpr NodeId kNode{0};

  static Bytes Pages(uint64_t n) { return MiB(2) * n; }

  // The fd channel: keeps what was sent, or fails as told.
  class Sender : public GrantSender {
   public:
    absl::Status SendGrant(SessionId session, GrantFrame frame) override {
      if (!fail.ok()) return fail;
      sent.emplace_back(session, std::move(frame));
      if (on_send) on_send();
      return absl::OkStatus();
    }
    void SendRevokeNotice(SessionId session, LeaseId lease,
                          absl::Duration within) override {
      notices.push_back({session, lease, within});
    }
    struct Notice {
      SessionId session;
      LeaseId lease;
      absl::Duration within;
    };
    std::vector<Notice> notices;
    absl::Status fail;
    std::function<void()> on_send;
    std::deque<std::pair<SessionId, GrantFrame>> sent;
  };
  class Sink : public NewsSink {
   public:
    void Publish(const News& n) override { news.push_back(n); }
    std::vector<News> news;
  };

  // 16 pages in shapes 4 and 1.
  LeaseFixture() { Make({}); }
  // Anew with other limits. Before anything was granted: timers stay.
  void Make(LeaseManager::Options options, uint64_t target = 16) {
    stewards_.reset();
    manager_.reset();
    // The news of the end of what a former call made goes to its pools.
    sender_.sent.clear();
    holders_.clear();
    files_.reset();
    watch_.Deliver();
    kernel_.AddPages(kNode, k2M, PageCount(target));
    options.daemon_uid = sys::FakeKernel::kDaemonUid;
    PoolConfig c;
    c.node = kNode;
    c.target = c.high = PageCount(target);
    c.shapes = {PageCount(4), PageCount(1)};
    table_ = *ExtentTable::Create(1024);
    files_ = std::make_unique<ExtentFiles>(1024);
    host_ = std::make_unique<Host>(std::vector<PoolConfig>{c},
                                   std::vector<NodeId>{kNode}, table_.get(),
                                   Host::Limits{});
    domains_ = std::make_unique<Domains>(
        DomainPolicy{},
        std::map<std::string, DomainPolicy>{
            {"reuse", {.in_place = true}},
            {"small", {.in_place = false, .quota = Pages(8)}}});
    deferred_ = std::make_unique<DeferredQueue>();
    manager_ = std::make_unique<LeaseManager>(
        options,
        LeaseManager::Deps{host_.get(), files_.get(), &sender_, &executor_,
                           &clock_, domains_.get(), &sink_,
                           [this](const Pool&) { ++wakes_; }, nullptr,
                           [this](const Pool&) { return deferred_.get(); }});
    Steward::Deps deps;
    deps.pools = {host_->pools()[0].get()};
    deps.kernel = &counters_;
    deps.clock = &clock_;
    deps.news = [this](PoolNews news) {
      executor_.Post(
          [this, news = std::move(news)] { manager_->OnNews(news); });
    };
    vault_ = std::make_unique<sys::FakeVault>();
    deps.worker = {&memory_, &watch_, vault_.get(), files_.get(),
                   &news_,   &engine_, /*share_page_tables=*/true};
    deps.deferred = deferred_.get();
    stewards_ = std::make_unique<Steward>(std::move(deps));
    Settle();
  }
  void TearDown() override {
    executor_.RunDue();
    for (const absl::Status& s :
         {manager_->CheckInvariants(), host_->CheckInvariants(),
          kernel_.CheckInvariants()}) {
      EXPECT_TRUE(s.ok()) << s;
    }
    EXPECT_EQ(kernel_.violations(), sys::FakeKernel::Violations{});
  }

  // Everything that happens by itself, now.
  void Settle() {
    do {
      watch_.Deliver();
      executor_.RunDue();
    } while (stewards_->Step());
  }
  void Advance(absl::Duration d) {
    clock_.Advance(d);
    Settle();
  }

  Identity Who(uid_t uid, const std::string& domain = "") {
    Identity who;
    who.uid = who.gid = uid;
    who.domain =
        domains_->Find(domain.empty() ? absl::StrCat("uid:", uid) : domain);
    return who;
  }
  static Identity Admin() {
    Identity who;
    who.admin = true;
    return who;
  }
  LeaseManager::SessionInfo Open(const Identity& who,
                                 const std::string& resume = "") {
    auto session = manager_->OpenSession(who, resume);
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }
  AcquireSpec Spec(uint64_t pages) {
    AcquireSpec spec;
    spec.request_id = absl::StrCat("r", ++requests_);
    SegmentRequest segment;
    segment.size = Pages(pages);
    segment.page_sizes = {k2M};
    spec.segments = {segment};
    return spec;
  }
  AcquireSpec Named(uint64_t pages, const std::string& name) {
    AcquireSpec spec = Spec(pages);
    spec.lifetime = Lifetime::kNamed;
    spec.name = name;
    return spec;
  }
  // The answer, or nullopt while it waits. A later answer lands in answers_.
  std::optional<Result> Acquire(SessionId session, const AcquireSpec& spec) {
    std::optional<Result>& answer = answers_[spec.request_id];
    answer.reset();
    manager_->Acquire(session, spec, [&answer](Result r) {
      EXPECT_FALSE(answer.has_value()) << "answered twice";
      answer = std::move(r);
    });
    return answer;
  }
  // Acquires, receives, maps and acknowledges.
  Lease Hold(SessionId session, const AcquireSpec& spec) {
    auto answer = Acquire(session, spec);
    EXPECT_TRUE(answer.has_value() && answer->ok());
    if (!answer.has_value() || !answer->ok()) {
      if (answer.has_value()) ADD_FAILURE() << answer->status();
      return Lease{};
    }
    Receive();
    EXPECT_TRUE(Ack(session, (*answer)->lease).ok());
    Settle();
    return (*answer)->lease;
  }
  // Takes over all descriptors that were sent.
  void Receive() {
    for (auto& [session, frame] : sender_.sent) {
      for (UniqueFd& fd : frame.fds) {
        holders_[frame.lease].push_back(kernel_.AdoptHolder(std::move(fd)));
        holders_[frame.lease].back().Map();
      }
    }
    sender_.sent.clear();
  }
  void Drop(LeaseId lease) { holders_.erase(lease); }
  absl::Status Ack(SessionId session, const Lease& lease) {
    return manager_->Acknowledge(session, lease.id, lease.generation);
  }
  Result Attach(SessionId session, LeaseId id, const std::string& name = "") {
    std::optional<Result> answer;
    manager_->Attach(session, absl::StrCat("a", ++requests_), id, name,
                     [&answer](Result r) { answer = std::move(r); });
    EXPECT_FALSE(answer.has_value()) << "answered on the executor";
    executor_.RunDue();
    return *std::move(answer);
  }
  std::optional<LeasePhase> PhaseOf(LeaseId id) {
    auto lease = manager_->Get(Admin(), id, "");
    if (!lease.ok()) return std::nullopt;
    return lease->phase;
  }
  Bytes Charged(const Identity& who) {
    return domains_->Views()[who.domain.value() - 1].charged;
  }
  PageCount Clean() {
    return host_->pools()[0]->Snapshot().in(ExtentState::kClean);
  }
  static std::optional<RefusalReason> ReasonOf(const absl::Status& status) {
    const auto refusal = RefusalOf(status);
    if (!refusal.has_value()) return std::nullopt;
    return refusal->reason;
  }
  // How often such news was published.
  int Told(LeaseNews::Kind kind) const {
    int n = 0;
    for (const News& news : sink_.news) {
      const auto* lease = std::get_if<LeaseNews>(&news);
      n += lease != nullptr && lease->kind == kind;
    }
    return n;
  }
  int Told(WaitNews::Kind kind) const {
    int n = 0;
    for (const News& news : sink_.news) {
      const auto* wait = std::get_if<WaitNews>(&news);
      n += wait != nullptr && wait->kind == kind;
    }
    return n;
  }

  FakeClock clock_;
  ManualExecutor executor_{&clock_};
  sys::FakeKernel kernel_;
  sys::FakeHugeMemory memory_{&kernel_};
  sys::FakeKernelPools counters_{&kernel_};
  std::unique_ptr<sys::FakeVault> vault_;
  HolderNews news_{[](const Pool&) {}};
  sys::FakeHolderWatch watch_{
      &kernel_, [this](const sys::HolderWatch::Event& e) { news_.On(e); }};
  InlineEngine engine_;
  Sender sender_;
  Sink sink_;
  int wakes_ = 0;
  int requests_ = 0;
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<ExtentFiles> files_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<Domains> domains_;
  std::unique_ptr<DeferredQueue> deferred_;
  std::unique_ptr<LeaseManager> manager_;
  std::unique_ptr<Steward> stewards_;
  std::map<std::string, std::optional<Result>> answers_;
  std::map<LeaseId, std::vector<sys::FakeHolder>> holders_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_LEASE_LEASE_FIXTURE_H_
