#include "tests/core/core_world.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"

namespace hugepool {
namespace {

constexpr NodeId kNodes[] = {NodeId(0), NodeId(2)};  // ids can be sparse

PoolConfig SmallPool(NodeId node, uint64_t target, bool let_go) {
  PoolConfig c;
  c.node = node;
  c.page_size = k2M;
  c.target = c.high = PageCount(target);
  c.low = PageCount(target / 4);
  c.shapes = {PageCount(8), PageCount(4), PageCount(1)};
  c.let_go = let_go;
  return c;
}

PoolConfig GiganticPool(NodeId node, uint64_t target, bool let_go) {
  PoolConfig c = SmallPool(node, target, let_go);
  c.page_size = k1G;
  c.shapes = {PageCount(1)};
  return c;
}

}  // namespace

class CoreWorld::Sender : public GrantSender {
 public:
  explicit Sender(CoreWorld* world) : world_(world) {}
  absl::Status SendGrant(SessionId session, GrantFrame frame) override {
    for (Client& c : world_->clients_) {
      if (c.connected && c.session->id == session) {
        c.arrived.push_back({std::move(frame)});
        return absl::OkStatus();
      }
    }
    return absl::UnavailableError("no connection");
  }
  void SendRevokeNotice(SessionId, LeaseId, absl::Duration) override {}

 private:
  CoreWorld* const world_;
};

class CoreWorld::Sink : public NewsSink {
 public:
  void Publish(const News&) override {}
};

CoreWorld::CoreWorld(const Options& options)
    : options_(options), clients_(kClients) {
  kernel_.AddPages(kNodes[0], k2M, PageCount(48));
  kernel_.AddPages(kNodes[1], k2M, PageCount(24));
  kernel_.AddPages(kNodes[0], k1G, PageCount(3));
  memory_ = std::make_unique<sys::FakeHugeMemory>(&kernel_);
  if (options.let_go) memory_->set_probe_kind(sys::ProbeKind::kNone);
  counters_ = std::make_unique<sys::FakeKernelPools>(&kernel_);
  executor_ = std::make_unique<ManualExecutor>(&clock_);
  table_ = *ExtentTable::Create(256);
  files_ = std::make_unique<ExtentFiles>(256);
  host_ = std::make_unique<Host>(
      std::vector<PoolConfig>{GiganticPool(kNodes[0], 3, options.let_go),
                              SmallPool(kNodes[0], 40, options.let_go),
                              SmallPool(kNodes[1], 24, options.let_go)},
      std::vector<NodeId>{kNodes[0], kNodes[1]}, table_.get(),
      Host::Limits{.max_extents_per_lease = 24, .max_waiters = 16});
  news_ = std::make_unique<HolderNews>([](const Pool&) {});
  watch_ = std::make_unique<sys::FakeHolderWatch>(
      &kernel_,
      [this](const sys::HolderWatch::Event& e) { news_->On(e); });
  domains_ = std::make_unique<Domains>(
      DomainPolicy{},
      std::map<std::string, DomainPolicy>{
          {"reuse", {.in_place = true}},
          {"small", {.in_place = false, .quota = GiB(2) + MiB(24)}}});
  sender_ = std::make_unique<Sender>(this);
  sink_ = std::make_unique<Sink>();
  manager_ = std::make_unique<LeaseManager>(
      LeaseManager::Options{.max_sessions = 16,
                            .daemon_uid = sys::FakeKernel::kDaemonUid},
      LeaseManager::Deps{host_.get(), files_.get(), sender_.get(),
                         executor_.get(), &clock_, domains_.get(), sink_.get(),
                         [](const Pool&) {}, nullptr,
                         [this](const Pool& p) { return &deferred_[p.node]; }});
  for (NodeId node : kNodes) {
    Steward::Deps deps;
    for (const auto& pool : host_->pools()) {
      if (pool->node == node) deps.pools.push_back(pool.get());
    }
    deps.kernel = counters_.get();
    deps.clock = &clock_;
    deps.news = [this](PoolNews news) {
      executor_->Post([this, news = std::move(news)] { manager_->OnNews(news); });
    };
    deps.deferred = &deferred_[node];
    deps.worker = {memory_.get(), watch_.get(), &vault_, files_.get(),
                   news_.get(),   &engine_,     true};
    stewards_.push_back(std::make_unique<Steward>(std::move(deps)));
  }
}

CoreWorld::~CoreWorld() = default;

void CoreWorld::Fault(std::string text) {
  if (fault_.empty()) fault_ = std::move(text);
}

Identity CoreWorld::WhoIs(int client) const {
  Identity who;
  who.uid = who.gid = static_cast<uid_t>(1000 + client);
  who.pid = 5000 + client;
  const char* domain = client >= kClients - 2 ? "small"
                       : client % 2 == 0      ? "reuse"
                                              : nullptr;
  who.domain = domains_->Find(domain != nullptr
                                  ? domain
                                  : absl::StrCat("uid:", who.uid));
  return who;
}

// Everything that would happen by itself in no time.
void CoreWorld::Settle() { executor_->RunDue(); }

// --- Clients -----------------------------------------------------------------

void CoreWorld::Connect(int client) {
  Client& c = clients_[client % kClients];
  if (c.connected) return;
  auto session = manager_->OpenSession(WhoIs(client % kClients),
                                       c.session ? c.session->secret : "");
  if (!session.ok()) return Fault(std::string(session.status().message()));
  if (!session->resumed) c.leases.clear();
  c.session = *session;
  c.connected = true;
  Settle();
}

void CoreWorld::Hang(int client) {
  Client& c = clients_[client % kClients];
  if (!c.connected) return;
  c.connected = false;
  c.arrived.clear();
  manager_->CloseSession(c.session->id, c.session->epoch, false);
  Settle();
}

void CoreWorld::DropHoldings(int client) {
  std::erase_if(holdings_,
                [&](const Holding& h) { return h.client == client; });
}

void CoreWorld::Kill(int client) {
  Client& c = clients_[client % kClients];
  DropHoldings(client % kClients);
  c.arrived.clear();
  c.leases.clear();
  if (c.connected) {
    c.connected = false;
    manager_->CloseSession(c.session->id, c.session->epoch, true);
  }
  c.session.reset();
  Settle();
}

void CoreWorld::Acquire(int client, int pages, int gigantic, int node,
                        int flags) {
  Client& c = clients_[client % kClients];
  if (!c.connected) return;
  AcquireSpec spec;
  spec.request_id = absl::StrCat("r", ++requests_);
  SegmentRequest segment;
  segment.size = (gigantic ? GiB(1) : MiB(2)) * static_cast<uint64_t>(pages);
  segment.page_sizes = {gigantic ? k1G : k2M};
  if (node >= 0) {
    segment.mode = PlacementMode::kBind;
    segment.nodes = {kNodes[node % 2]};
  }
  if (flags & 32) segment.max_extents = 1;
  spec.segments = {segment};
  if (pages % 5 == 4 && !gigantic) spec.segments.push_back(segment);
  spec.is_private = (flags & 1) != 0;
  spec.sealed = (flags & 2) != 0;
  spec.reopenable = (flags & 4) != 0;
  if (flags & 8) spec.max_wait = absl::Seconds(3);
  if (flags & 16) spec.lifetime = Lifetime::kMemory;
  if (flags & 64) {
    spec.lifetime = Lifetime::kNamed;
    spec.name = spec.request_id;
  }
  manager_->Acquire(c.session->id, spec,
                    [](absl::StatusOr<LeaseManager::Granted>) {});
  Settle();
}

void CoreWorld::Copy(int client, int n, int from, int pages, int flags) {
  Client& c = clients_[client % kClients];
  if (!c.connected || c.leases.empty()) return;
  const LeaseId source = c.leases[static_cast<size_t>(n) % c.leases.size()];
  AcquireSpec spec;
  spec.request_id = absl::StrCat("r", ++requests_);
  SegmentRequest segment;
  segment.size = MiB(2) * static_cast<uint64_t>(pages);
  segment.page_sizes = {k2M};
  segment.copy = CopySource{source, MiB(2) * static_cast<uint64_t>(from)};
  segment.hot = segment.size - Bytes(1);
  spec.segments = {segment};
  spec.is_private = (flags & 1) != 0;
  if (flags & 8) spec.max_wait = absl::Seconds(3);
  copies_[spec.request_id] = source;
  manager_->Acquire(c.session->id, spec,
                    [](absl::StatusOr<LeaseManager::Granted>) {});
  Settle();
}

// Zero, or in a copy what its source had (0xEE: what a pin wrote).
bool CoreWorld::MayRead(const GrantFrame& frame, uint8_t byte) const {
  if (byte == 0) return true;
  const auto copy = copies_.find(frame.request_id);
  if (copy == copies_.end()) return false;
  const auto tags = tags_of_.find(copy->second);
  return byte == 0xEE ||
         (tags != tags_of_.end() && tags->second.contains(byte));
}

void CoreWorld::Receive(int client, int acknowledge) {
  const int index = client % kClients;
  Client& c = clients_[index];
  if (!c.connected || c.arrived.empty()) return;
  GrantFrame frame = std::move(c.arrived.front().frame);
  c.arrived.erase(c.arrived.begin());
  const auto lease = manager_->Get(WhoIs(index), frame.lease, "");
  for (size_t i = 0; i < frame.fds.size(); ++i) {
    Holding h{kernel_.AdoptHolder(std::move(frame.fds[i]),
                                  static_cast<uid_t>(1000 + index)),
              frame.lease, index, 0, next_tag_, true, false};
    if (lease.ok()) {
      const TakenExtent& e = lease->extents[frame.first_extent + i];
      h.segment = e.segment;
      h.offset = e.offset;
    }
    h.holder.Map();
    for (uint64_t p = 0;; ++p) {
      // The end of the file is the end of the extent.
      const auto before = kernel_.sigbus_past_end();
      auto byte = h.holder.Read(p);
      if (!byte.has_value()) {
        if (kernel_.sigbus_past_end() == before) {
          Fault(absl::StrCat("SIGBUS in a fresh grant of ",
                             ToWire(frame.lease)));
        }
        break;
      }
      if (!MayRead(frame, *byte)) {
        Fault(absl::StrCat("stale byte ", *byte, " in page ", p, " of ",
                           ToWire(frame.lease)));
      }
      if (h.holder.Write(p, h.tag) != sys::FakeAccess::kOk) {
        Fault("cannot write a fresh grant");
      }
      h.pages = p + 1;
    }
    h.tampered = to_revoke_.contains(frame.lease);
    tags_of_[frame.lease].insert(h.tag);
    holdings_.push_back(std::move(h));
    ++received_;
    copied_ += copies_.contains(frame.request_id);
  }
  if (++next_tag_ == 0) next_tag_ = 1;
  const bool last = frame.part + 1 == frame.parts;
  if (!last) return;
  if (acknowledge) {
    if (manager_->Acknowledge(c.session->id, frame.lease, frame.generation)
            .ok()) {
      c.leases.push_back(frame.lease);
    } else {
      // Rolled back meanwhile: a good client lets go.
      for (Holding& h : holdings_) {
        if (h.lease == frame.lease) h.live = false;
      }
    }
  } else {
    for (Holding& h : holdings_) {
      if (h.lease == frame.lease) h.live = false;
    }
    (void)manager_->Refuse(c.session->id, frame.lease, frame.generation, "no");
  }
  Settle();
}

void CoreWorld::Release(int client, int n, int keep) {
  const int index = client % kClients;
  Client& c = clients_[index];
  if (c.leases.empty()) return;
  const LeaseId lease = c.leases[n % c.leases.size()];
  for (Holding& h : holdings_) {
    if (h.lease == lease) h.live = false;
  }
  if (!keep) {
    std::erase_if(holdings_,
                  [&](const Holding& h) { return h.lease == lease; });
  }
  (void)manager_->Release(WhoIs(index), lease, "");
  std::erase(c.leases, lease);
  Settle();
}

void CoreWorld::ReleasePages(int n, int first, int count) {
  Holding* h = PickHolding(n, /*live_only=*/true);
  if (h == nullptr || h->pages == 0) return;
  const auto lease = manager_->Get(WhoIs(h->client), h->lease, "");
  if (!lease.ok() || lease->phase != LeasePhase::kHeld) return;
  const Bytes page = lease->segments[h->segment].page_size.bytes();
  const uint64_t from = static_cast<uint64_t>(first) % h->pages;
  const uint64_t to = std::min(h->pages, from + static_cast<uint64_t>(count));
  bool again = false;
  for (uint64_t p = from; p < to; ++p) again |= h->released->contains(p);
  const auto released = manager_->ReleaseRanges(
      WhoIs(h->client), h->lease, "",
      {{h->segment, h->offset + page * from, page * (to - from)}});
  if (released.ok() == (again || options_.let_go)) {
    return Fault(absl::StrCat("a release of pages ", from, " to ", to, " of ",
                              ToWire(h->lease), ": ",
                              released.status().ToString()));
  }
  if (!released.ok()) return;
  for (uint64_t p = from; p < to; ++p) {
    h->released->insert(p);
    h->holder.GiveUp(p);
  }
}

void CoreWorld::Revoke(int n, int notice_ms) {
  const Holding* h = PickHolding(n);
  if (h == nullptr) return;
  const LeaseId lease = h->lease;
  ++orders_;
  const int answers = answers_;
  manager_->Revoke(lease, absl::Milliseconds(notice_ms),
                   [this](const absl::StatusOr<Bytes>& result) {
                     ++answers_;
                     revoked_ += result.ok();
                   });
  // A refusal comes at once, and changes nothing.
  if (answers_ != answers) return;
  to_revoke_.insert(lease);
  for (Holding& other : holdings_) {
    if (other.lease == lease) other.tampered = true;
  }
  Settle();
}

void CoreWorld::DropKept(int n) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < holdings_.size(); ++i) {
    if (!holdings_[i].live) kept.push_back(i);
  }
  if (kept.empty()) return;
  holdings_.erase(holdings_.begin() +
                  static_cast<ptrdiff_t>(kept[n % kept.size()]));
}

// --- Holders -----------------------------------------------------------------

CoreWorld::Holding* CoreWorld::PickHolding(int n, bool live_only) {
  if (holdings_.empty()) return nullptr;
  Holding& h = holdings_[n % holdings_.size()];
  return live_only && !h.live ? nullptr : &h;
}

// The holder of something released goes on writing as well (T4).
void CoreWorld::WriteAgain(int n) {
  Holding* h = PickHolding(n);
  if (h == nullptr || h->tampered) return;
  for (uint64_t p = 0; p < h->pages; ++p) {
    const bool released = h->released->contains(p);
    if (released && options_.honest) continue;
    stole_ = stole_ || released;
    ever_stole_ = ever_stole_ || released;
    h->holder.Write(p, h->tag);
  }
}

void CoreWorld::ForkAndKeep(int n) {
  Holding* h = PickHolding(n);
  if (h == nullptr) return;
  Holding child{h->holder.Fork(), h->lease, h->client, h->pages,
                h->tag,           h->live,  h->tampered,
                h->segment,       h->offset, h->released};
  holdings_.push_back(std::move(child));
}

void CoreWorld::Reopen(int n) {
  Holding* h = PickHolding(n);
  if (h == nullptr) return;
  auto again = h->holder.Reopen();
  if (!again.has_value()) return;
  Holding other{*std::move(again), h->lease, h->client, h->pages,
                h->tag,            h->live,  h->tampered,
                h->segment,        h->offset, h->released};
  holdings_.push_back(std::move(other));
}

void CoreWorld::Punch(int n, int page) {
  Holding* h = PickHolding(n);
  if (options_.honest || h == nullptr || h->pages == 0) return;
  if (!h->holder.Punch(static_cast<uint64_t>(page) % h->pages)) return;
  punched_ = true;
  for (Holding& other : holdings_) {
    if (other.lease == h->lease) other.tampered = true;
  }
}

void CoreWorld::Truncate(int n) {
  Holding* h = PickHolding(n);
  if (options_.honest || h == nullptr || h->pages == 0) return;
  if (!h->holder.Truncate(h->pages - 1)) return;
  punched_ = true;
  for (Holding& other : holdings_) {
    if (other.lease == h->lease) other.tampered = true;
  }
}

void CoreWorld::Chmod(int n) {
  Holding* h = PickHolding(n);
  if (options_.honest || h == nullptr) return;
  h->holder.Chmod(0666);
}

// A private lease promises that no pin outlives it; the others may do anything.
void CoreWorld::Pin(int n) {
  Holding* h = PickHolding(n);
  if (h == nullptr || h->pages == 0 || h->tampered || h->client % 2 == 0 ||
      h->released->contains(0)) {
    return;
  }
  if (auto pin = h->holder.Pin(0)) pins_.push_back(*std::move(pin));
}

void CoreWorld::Unpin(int n) {
  if (pins_.empty()) return;
  const size_t i = static_cast<size_t>(n) % pins_.size();
  pins_[i].Write(0xEE);  // through the pin, whoever has the page now
  // The pinner's own lease shows that byte: put its own back if it lives.
  pins_.erase(pins_.begin() + static_cast<ptrdiff_t>(i));
  for (Holding& h : holdings_) {
    if (h.client % 2 == 1 && !h.tampered && h.pages > 0 &&
        !h.released->contains(0) &&
        h.holder.Read(0) == 0xEE) {
      h.holder.Write(0, h.tag);
    }
  }
}

// --- The daemon and the machine ------------------------------------------------

void CoreWorld::Step(int count) {
  for (int i = 0; i < count; ++i) {
    if (!stewards_[i % stewards_.size()]->Step() &&
        !stewards_[(i + 1) % stewards_.size()]->Step()) {
      break;
    }
    Settle();
  }
}

// The news stays on the executor: clients act before it arrives.
void CoreWorld::StepAhead(int count) {
  for (int i = 0; i < count; ++i) stewards_[i % stewards_.size()]->Step();
}

void CoreWorld::Deliver() { watch_->Deliver(); }

void CoreWorld::Verify(int n, int sample) {
  Pool& pool = *host_->pools()[static_cast<size_t>(n) % host_->pools().size()];
  if (sample) return pool.SampleVerify(MiB(6));
  // The last one was done, or its caller has gone.
  for (const auto& p : host_->pools()) {
    if (!p->FinishVerify(passes_).has_value()) p->CancelVerify(passes_);
  }
  pool.StartVerify(++passes_);
}

void CoreWorld::Recount() {
  // Twice: FailSomething() may have made the first one fail.
  for (int i = 0; i < 2; ++i) {
    for (const auto& pool : host_->pools()) pool->RecountShrunk();
    Deliver();
    Step(1000);
  }
  // Those that have ended are counted when they are asked about.
  stole_ = std::any_of(host_->pools().begin(), host_->pools().end(),
                       [](const auto& pool) {
                         const PoolSnapshot s = pool->Snapshot();
                         return s.in(ExtentState::kReturning).value() > 0;
                       });
}

Bytes CoreWorld::split() const {
  Bytes sum;
  for (const auto& pool : host_->pools()) sum += pool->Snapshot().split;
  return sum;
}

void CoreWorld::LoseEvents() {
  if (options_.let_go) return;  // then the end of an inode is the only news
  watch_->Overflow();
  events_lost_ = true;
}

void CoreWorld::Advance(int milliseconds) {
  clock_.Advance(absl::Milliseconds(milliseconds));
  Settle();
}

void CoreWorld::TakeOutside(int pages) {
  outside_ += kernel_.TakeOutside(kNodes[0], k2M,
                                  PageCount(static_cast<uint64_t>(pages)));
}

void CoreWorld::ReturnOutside() {
  kernel_.ReturnOutside(kNodes[0], k2M, outside_);
  outside_ = PageCount(0);
}

void CoreWorld::FailSomething(int which) {
  using Op = sys::FakeKernel::Op;
  static constexpr Op kOps[] = {Op::kCreate, Op::kGrow,    Op::kPolicy,
                                Op::kMap,    Op::kOpen,    Op::kSeal,
                                Op::kChown,  Op::kPageNodes, Op::kFacts,
                                Op::kWatch,  Op::kZero,  Op::kFindStray,
                                Op::kRead};
  const int n = static_cast<int>(std::size(kOps));
  if (which % (n + 2) == n) {
    kernel_.FailNextPopulateAfter(PageCount(2));
  } else if (which % (n + 2) == n + 1) {
    kernel_.ProbeUnknown();
  } else {
    kernel_.FailNext(kOps[which % (n + 2)], ENOMEM);
  }
}

// --- Checks --------------------------------------------------------------------

// What a live lease's holder wrote is what it reads.
void CoreWorld::CheckContents() {
  for (Holding& h : holdings_) {
    if (!h.live || h.tampered) continue;
    for (uint64_t p = 0; p < h.pages; ++p) {
      if (h.released->contains(p)) continue;
      const auto byte = h.holder.Read(p);
      // Its own pin may have written.
      if (byte == h.tag || (byte == 0xEE && h.client % 2 == 1)) continue;
      return Fault(absl::StrCat(
          "page ", p, " of ", ToWire(h.lease), " reads ",
          byte.has_value() ? static_cast<int>(*byte) : -1, ", not ", h.tag));
    }
  }
}

std::string CoreWorld::WhereTheyDiffer(const Pool& pool) {
  std::string out;
  for (SlotId slot : table_->Living()) {
    if (table_->node(slot) != pool.node ||
        table_->page_size(slot) != pool.page_size) {
      continue;
    }
    sys::HugeFile* const file = files_->Get(slot);
    const auto facts = file == nullptr ? absl::StatusOr<sys::FileFacts>(absl::NotFoundError("let go"))
                                       : file->Facts();
    const PageCount booked = table_->present(slot);
    if (facts.ok() && facts->allocated == pool.page_size.Of(booked)) continue;
    absl::StrAppend(&out, "; slot ", slot.value(), " ",
                    ToString(table_->state(slot)), ": ", booked.value(),
                    " pages of ", table_->pages(slot).value(), ", really ",
                    facts.ok() ? ToString(facts->allocated)
                               : std::string(facts.status().message()));
  }
  return out;
}

std::string CoreWorld::CheckRecount(bool quiescent) {
  const bool exact = quiescent && !punched_;
  std::map<PageSize, std::pair<PageCount, PageCount>> sums;
  for (const auto& pool : host_->pools()) {
    const PoolSnapshot s = pool->Snapshot();
    const PageCount real = kernel_.PagesInInodes(pool->node, pool->page_size);
    auto& [booked, found] = sums[pool->page_size];
    booked += s.charged;
    found += real;
    // What a holder took back can be of any node.
    if (ever_stole_) continue;
    if (real > s.charged || (exact && real != s.charged)) {
      return absl::StrCat("node ", pool->node.value(), ", ",
                          ToString(pool->page_size), ": ", s.charged.value(),
                          " pages in the books, ", real.value(),
                          " in our inodes", WhereTheyDiffer(*pool));
    }
  }
  for (const auto& [size, sum] : sums) {
    const auto& [booked, found] = sum;
    if ((found > booked && !stole_) || (exact && found != booked)) {
      return absl::StrCat(ToString(size), ": ", booked.value(),
                          " pages in the books, ", found.value(),
                          " in our inodes");
    }
  }
  return "";
}

std::string CoreWorld::Check() {
  CheckContents();
  if (!fault_.empty()) return fault_;
  Settle();
  for (const absl::Status& s :
       {host_->CheckInvariants(), manager_->CheckInvariants(),
        kernel_.CheckInvariants()}) {
    if (!s.ok()) return std::string(s.message());
  }
  for (const auto& pool : host_->pools()) {
    if (pool->Snapshot().stray != 0) return "clean memory was not zero";
  }
  const auto violations = kernel_.violations();
  if (violations.daemon_sigbus != 0) return "the daemon met SIGBUS";
  if (violations.touched_while_held != 0) {
    return "the daemon touched memory that somebody holds";
  }
  return CheckRecount(false);
}

std::string CoreWorld::CheckAllComesBack() {
  std::string wrong = Check();
  if (!wrong.empty()) return wrong;
  for (int i = 0; i < kClients; ++i) Kill(i);
  holdings_.clear();
  pins_.clear();
  ReturnOutside();
  // NAMED leases outlive their clients.
  Identity admin;
  admin.admin = true;
  for (const Lease& l : manager_->List(admin, LeaseId(), 1000, std::nullopt)) {
    (void)manager_->Release(admin, l.id, "");
  }
  for (int round = 0; round < 200; ++round) {
    Deliver();
    Step(1000);
    Advance(1000);
  }
  wrong = Check();
  if (!wrong.empty()) return wrong;
  wrong = CheckRecount(true);
  if (!wrong.empty()) return wrong;
  if (answers_ != orders_) {
    return absl::StrCat(orders_, " orders to revoke, ", answers_, " answers");
  }
  if (manager_->Count().leases != 0) {
    std::string wrong = absl::StrCat(manager_->Count().leases,
                                     " leases never ended:");
    for (const Lease& l :
         manager_->List(admin, LeaseId(), 1000, std::nullopt)) {
      absl::StrAppend(&wrong, " phase ", static_cast<int>(l.phase));
      for (const TakenExtent& e : l.extents) {
        absl::StrAppend(&wrong, " slot ", e.slot.value(), " ",
                        ToString(table_->state(e.slot)));
      }
    }
    return wrong;
  }
  for (const auto& pool : host_->pools()) {
    const PoolSnapshot s = pool->Snapshot();
    if (s.in(ExtentState::kClean) != s.config.target) {
      return absl::StrCat("node ", pool->node.value(), ", ",
                          ToString(pool->page_size), ": ",
                          s.in(ExtentState::kClean).value(),
                          " pages clean in the end, not ",
                          s.config.target.value(), "; ", s.shortfall);
    }
  }
  for (const DomainView& d : domains_->Views()) {
    if (d.charged.value() != 0 || d.leases != 0) {
      return absl::StrCat("domain ", d.name, " is still charged");
    }
  }
  return "";
}

}  // namespace hugepool
