#include "daemon/server/daemon.h"

#include <grp.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/log.h"
#include "daemon/base/version.h"
#include "daemon/server/config/to_yaml.h"

namespace hugepool::server {
namespace {

// Descriptors that are not extents: sockets, epoll, inotify, libraries.
constexpr uint64_t kOtherFds = 256;
constexpr absl::Duration kStopGrace = absl::Seconds(5);
// How often pools are shown to those who watch.
constexpr absl::Duration kPoolNewsEvery = absl::Seconds(1);
constexpr absl::Duration kLookForReadyEvery = absl::Milliseconds(20);

uint32_t NewBootId() {
  uint32_t id = 0;
  // Four bytes are never cut short once the kernel's pool is initialised.
  if (getrandom(&id, sizeof(id), 0) != sizeof(id) || id == 0) id = 1;
  return id;
}

DomainPolicy PolicyOf(const DomainConfig& d) {
  return {.in_place = d.reuse == Reuse::kInPlace, .quota = d.quota};
}

absl::StatusOr<service::AccessRule> AccessFor(const std::string& group) {
  service::AccessRule rule;
  if (group.empty()) return rule;
  if (group == kEverybody) {
    rule.any = true;
    return rule;
  }
  uint32_t number = 0;
  if (absl::SimpleAtoi(group, &number)) {
    rule.group = number;
    return rule;
  }
  const struct group* entry = getgrnam(group.c_str());
  if (entry == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no group '", group,
                     "'; create it, or name another in the configuration"));
  }
  rule.group = entry->gr_gid;
  return rule;
}

// What RLIMIT_NOFILE leaves for extents and connections.
uint64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur > kOtherFds ? limit.rlim_cur - kOtherFds : 0;
}

// What the configuration asks for and this version does not do. Said aloud: a
// limit that is not kept is worse than none.
std::vector<std::string> NotInForce(const Config& config) {
  std::vector<std::string> warnings;
  const auto warn = [&warnings](const std::string& key) {
    warnings.push_back(key + " is not in force yet");
  };
  for (const DomainConfig& d : config.domains) {
    if (d.named_quota != Bytes(0)) warn("named_quota of domain " + d.name);
    if (d.max_waiters != DomainConfig().max_waiters) {
      warn("max_waiters of domain " + d.name);
    }
  }
  return warnings;
}

// Nothing is being built, and nothing is left to build: the pool has what it
// shall have, or the kernel has no more.
bool Filled(const PoolSnapshot& s) {
  if (s.in(ExtentState::kPopulating) > PageCount(0)) return false;
  const bool kernel_empty =
      s.kernel.has_value() && s.kernel->free == PageCount(0);
  return s.charged >= s.config.high || kernel_empty || !s.shortfall.empty();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config) {
  std::unique_ptr<Daemon> d(new Daemon(config));
  HP_RETURN_IF_ERROR(d->Make());
  return d;
}

Daemon::~Daemon() { Stop(); }

// In this order: what others wait on first, sockets before pages, threads last.
absl::Status Daemon::Make() {
  HP_ASSIGN_OR_RETURN(machine_, Machine::Find(config_));
  HP_ASSIGN_OR_RETURN(table_, ExtentTable::Create(config_.limits.max_extents));
  files_ = std::make_unique<ExtentFiles>(config_.limits.max_extents);
  executor_ = std::make_unique<ThreadExecutor>("hp-executor");
  holders_executor_ = std::make_unique<ThreadExecutor>("hp-holders");
  std::map<std::string, DomainPolicy> by_name;
  for (const DomainConfig& d : config_.domains) by_name[d.name] = PolicyOf(d);
  domains_ = std::make_unique<Domains>(
      PolicyOf(DomainFor(config_, kEverybody)), by_name);
  HP_RETURN_IF_ERROR(MakePools());
  holder_news_ =
      std::make_unique<HolderNews>([this](const Pool& p) { Wake(p); });
  HP_ASSIGN_OR_RETURN(
      watch_, sys::InotifyWatch::Start(
                  [news = holder_news_.get()](
                      const sys::HolderWatch::Event& e) { news->On(e); }));
  HP_RETURN_IF_ERROR(MakeService());
  HP_RETURN_IF_ERROR(MakeStewards());
  MakeVerifier();
  // Claims the directories: up to here not a page was touched, so that a second
  // daemon on the same directories leaves without a trace (T6).
  HP_RETURN_IF_ERROR(service_->Start(manager_.get(), host_.get()));
  std::vector<std::string> grown;
  machine_->GrowKernelPages(config_, host_->pools(), &grown);
  {
    MutexLock lock(&warnings_mu_);
    warnings_.insert(warnings_.end(), grown.begin(), grown.end());
  }
  for (auto& steward : stewards_) steward->Start();
  verifier_->Start();
  executor_->Post([this] { WatchPools(); });
  LogStart();
  return absl::OkStatus();
}

absl::Status Daemon::MakePools() {
  std::vector<std::string> warnings = NotInForce(config_);
  HP_ASSIGN_OR_RETURN(auto pools, machine_->MakePools(config_, &warnings));
  {
    MutexLock lock(&warnings_mu_);
    warnings_ = std::move(warnings);
  }
  if (pools.empty()) {
    return absl::InvalidArgumentError(
        "no pool could be made: the configuration names no page size that this "
        "machine has");
  }
  Host::Limits limits;
  limits.max_waiters = config_.limits.max_waiters;
  limits.max_extents_per_lease =
      std::min(limits.max_extents_per_lease,
               config_.grants.max_unacknowledged_fds_per_session);
  host_ = std::make_unique<Host>(pools, machine_->NodesWithMemory(),
                                 table_.get(), limits);
  return absl::OkStatus();
}

absl::Status Daemon::MakeService() {
  service::Service::Options options;
  for (const ListenerConfig& l : config_.listeners) {
    service::ListenerSpec spec;
    spec.dir = l.dir;
    HP_ASSIGN_OR_RETURN(spec.access, AccessFor(l.group));
    spec.domain = l.domain;
    options.listeners.push_back(std::move(spec));
  }
  service::ListenerSpec admin;
  admin.dir = config_.admin.dir;
  HP_ASSIGN_OR_RETURN(admin.access, AccessFor(config_.admin.group));
  admin.admin = true;
  options.listeners.push_back(std::move(admin));
  options.admin.config_yaml = [this] { return ToYaml(ConfigNow()); };
  options.admin.set_bandwidth = [this](std::optional<Bytes> per_second) {
    SetBandwidth(per_second);
  };
  options.admin.revoke = [this](const Revoker::Order& order,
                                Revoker::Done done) {
    revoker_->Revoke(order, std::move(done));
  };
  options.admin.verify = [this](const std::vector<Pool*>& pools,
                                Verifier::Done done) {
    verifier_->Verify(pools, std::move(done));
  };
  options.admin.set_pressure_limit = [this](std::optional<uint32_t> percent) {
    SetPressureLimit(percent);
  };
  options.daemon_uid = geteuid();
  options.fd.acknowledge_within = config_.grants.acknowledge_within;
  options.fd.max_unacknowledged_fds =
      config_.grants.max_unacknowledged_fds_per_session;
  options.facts.version = kVersion;
  options.facts.backend = std::string(machine_->memory()->backend());
  options.facts.probe =
      std::string(sys::ToString(machine_->memory()->probe_kind()));
  options.facts.started = Clock::Real()->WallNow();
  options.facts.descriptor_limit = [] { return DescriptorLimit(); };
  options.facts.ready = [this] { return Ready(); };
  options.facts.warnings = [this] { return Warnings(); };
  options.facts.zeroing = [this] { return Zeroing(); };
  options.facts.deferred = [this] { return Deferred(); };
  service_ = std::make_unique<service::Service>(
      std::move(options),
      service::Service::Deps{domains_.get(), executor_.get(), Clock::Real()});
  reporter_ = std::make_unique<PoolReporter>(service_->news());

  LeaseManager::Options lease;
  lease.acknowledge_within = config_.grants.acknowledge_within;
  lease.resume_grace = config_.grants.resume_grace;
  lease.max_unacknowledged_fds_per_session =
      config_.grants.max_unacknowledged_fds_per_session;
  // Well below what the kernel lets this user have in flight, which is
  // RLIMIT_NOFILE.
  lease.max_unacknowledged_fds = static_cast<uint32_t>(std::min<uint64_t>(
      config_.grants.max_unacknowledged_fds, DescriptorLimit() / 2));
  lease.max_sessions = config_.limits.max_sessions;
  lease.verify_at_grant = config_.verify.at_grant;
  lease.daemon_uid = geteuid();
  lease.boot_id = NewBootId();
  // All of them now: the map is only read from here on.
  for (const auto& pool : host_->pools()) deferred_.try_emplace(pool->node);
  manager_ = std::make_unique<LeaseManager>(
      lease, LeaseManager::Deps{host_.get(), files_.get(), service_->sender(),
                                executor_.get(), Clock::Real(), domains_.get(),
                                service_->news(),
                                [this](const Pool& p) { Wake(p); }, watch_.get(),
                                [this](const Pool& p) {
                                  return &deferred_.at(p.node);
                                }});
  revoker_ = std::make_unique<Revoker>(
      Revoker::Deps{manager_.get(), service_->sender(), &holders_,
                    holders_executor_.get(), Clock::Real()});
  return absl::OkStatus();
}

Config Daemon::ConfigNow() {
  Config now = config_;
  MutexLock lock(&zeroing_mu_);
  now.zeroing = zeroing_;
  return now;
}

void Daemon::SetBandwidth(std::optional<Bytes> per_second) {
  // Both under the lock, so that what is shown is what holds.
  MutexLock lock(&zeroing_mu_);
  zeroing_.bandwidth = per_second;
  for (const NodeEngine& engine : engines_) {
    engine.workers->SetBandwidth(per_second);
  }
}

void Daemon::SetPressureLimit(std::optional<uint32_t> percent) {
  MutexLock lock(&zeroing_mu_);
  zeroing_.pressure_limit = std::nullopt;
  if (percent.has_value()) zeroing_.pressure_limit = Percent{*percent};
  for (const NodeEngine& engine : engines_) {
    engine.workers->SetPressureLimit(percent);
  }
}

std::vector<service::ZeroingFacts> Daemon::Zeroing() const {
  std::vector<service::ZeroingFacts> all;
  for (const NodeEngine& engine : engines_) {
    const NodeWorkers::Rate zero = engine.workers->zeroing();
    const NodeWorkers::Rate populate = engine.workers->populating();
    const Pacer::State pace = engine.workers->pace();
    all.push_back({.node = engine.node,
                   .stores = engine.stores.routine->name,
                   .stores_rate = engine.stores.zero_rate,
                   .zero_threads = zero.threads,
                   .zero_rate = zero.bytes_per_second,
                   .populate_threads = populate.threads,
                   .populate_rate = populate.bytes_per_second,
                   .background_cap = pace.bandwidth,
                   .background_share = pace.share,
                   .pressure = pace.pressure});
  }
  return all;
}

std::vector<std::pair<NodeId, DeferredQueue::Stats>> Daemon::Deferred() const {
  std::vector<std::pair<NodeId, DeferredQueue::Stats>> all;
  for (const auto& [node, queue] : deferred_) {
    all.emplace_back(node, queue.stats());
  }
  return all;
}

sys::SchedClass* Daemon::IdleClass() {
  if (!config_.zeroing.idle_class) return nullptr;
  const absl::Status can = sys::CanLeaveIdleClass(sched_);
  if (can.ok()) return &sched_;
  MutexLock lock(&warnings_mu_);
  warnings_.push_back(absl::StrCat(
      "zeroing.idle_class is not in force, clearing in the background runs in "
      "the normal class: a thread could not leave the idle class again (",
      can.message(),
      "); give the service LimitNICE=20 or CAP_SYS_NICE, or set "
      "zeroing.idle_class to false"));
  return nullptr;
}

absl::Status Daemon::MakeStewards() {
  sys::SchedClass* const sched = IdleClass();
  for (const sys::NodeInfo& node : machine_->topology().nodes()) {
    Steward::Deps deps;
    for (const auto& pool : host_->pools()) {
      if (pool->node == node.id) deps.pools.push_back(pool.get());
    }
    if (deps.pools.empty()) continue;
    HP_ASSIGN_OR_RETURN(const RoutineRate stores,
                        Machine::ChooseStoresFor(config_, node.id));
    NodeWorkers::Options workers;
    workers.cpus = node.worker_cpus;
    workers.threads = Machine::WorkerThreads(config_, node);
    workers.tune = !config_.zeroing.threads.has_value();
    workers.stores = stores.routine;
    workers.bandwidth = config_.zeroing.bandwidth;
    workers.sched = sched;
    workers.pressure = &pressure_;
    if (const auto& limit = config_.zeroing.pressure_limit; limit.has_value()) {
      workers.pressure_limit = limit->value;
    }
    engines_.push_back(
        {node.id, stores, std::make_unique<NodeWorkers>(workers)});
    deps.kernel = machine_->shmem() ? nullptr : machine_->kernel();
    deps.clock = Clock::Real();
    deps.cpus = node.worker_cpus;
    deps.deferred = &deferred_.at(node.id);
    deps.news = [this, id = node.id](PoolNews news) {
      if (news.stray > 0) TellStray(id, news.stray);
      executor_->Post([this, news = std::move(news)] {
        manager_->OnNews(news);
        TellProgress();
      });
    };
    deps.worker.memory = machine_->memory();
    deps.worker.watch = watch_.get();
    deps.worker.vault = &vault_;
    deps.worker.files = files_.get();
    deps.worker.news = holder_news_.get();
    deps.worker.engine = engines_.back().workers.get();
    deps.worker.share_page_tables =
        config_.share_page_tables != SharePageTables::kOff;
    stewards_.push_back(std::make_unique<Steward>(std::move(deps)));
    steward_of_.emplace_back(node.id, stewards_.back().get());
  }
  return absl::OkStatus();
}

void Daemon::MakeVerifier() {
  Verifier::Deps deps;
  for (const auto& pool : host_->pools()) deps.pools.push_back(pool.get());
  deps.executor = executor_.get();
  deps.clock = Clock::Real();
  deps.wake = [this](const Pool& p) { Wake(p); };
  deps.sample_every =
      config_.verify.interval.value_or(absl::InfiniteDuration());
  verifier_ = std::make_unique<Verifier>(std::move(deps));
}

// The worst news there is, short of having lent it.
void Daemon::TellStray(NodeId node, uint64_t bytes) {
  const std::string text = absl::StrCat(
      bytes, " bytes of clean memory on node ", node.value(),
      " were not zero; the extent was not lent and goes back to the kernel");
  Log(LogLevel::kError, text);
  service_->news()->Publish(Warning{text});
}

void Daemon::Wake(const Pool& pool) {
  for (const auto& [node, steward] : steward_of_) {
    if (node == pool.node) steward->Wake();
  }
}

std::vector<PoolSnapshot> Daemon::Snapshots() const {
  std::vector<PoolSnapshot> all;
  for (const auto& pool : host_->pools()) all.push_back(pool->Snapshot());
  return all;
}

// Shows the pools to those who watch, and notices when all are filled.
void Daemon::WatchPools() {
  const std::vector<PoolSnapshot> pools = Snapshots();
  reporter_->TellState(pools);
  TellProgress();
  const bool ready = std::all_of(pools.begin(), pools.end(), Filled);
  if (ready && !ready_.exchange(true, std::memory_order_relaxed)) {
    const bool degraded =
        std::any_of(pools.begin(), pools.end(), [](const PoolSnapshot& s) {
          return !s.shortfall.empty();
        });
    Log(LogLevel::kInfo, degraded
                             ? "ready, degraded: the pools have what there is"
                             : "ready: every pool is filled");
  }
  // Quickly while it matters, at leisure afterwards.
  executor_->PostAt(
      Clock::Real()->Now() + (ready ? kPoolNewsEvery : kLookForReadyEvery),
      [this] { WatchPools(); });
}

// On the executor. While pools fill it calls itself again; at rest nothing runs,
// until a steward has news.
void Daemon::TellProgress() {
  if (progress_is_due_) return;
  const absl::Time again =
      reporter_->TellProgress(Snapshots(), Clock::Real()->Now());
  if (again == absl::InfiniteFuture()) return;
  progress_is_due_ = true;
  executor_->PostAt(again, [this] {
    progress_is_due_ = false;
    TellProgress();
  });
}

bool Daemon::Ready() { return ready_.load(std::memory_order_relaxed); }

std::vector<std::string> Daemon::Warnings() {
  std::vector<std::string> all;
  {
    MutexLock lock(&warnings_mu_);
    all = warnings_;
  }
  for (const PoolSnapshot& s : Snapshots()) {
    if (!s.shortfall.empty()) all.push_back(DescribeShortfall(s));
    if (s.stray > 0) {
      all.push_back(absl::StrCat(
          "pool of ", ToString(s.config.page_size), " on node ",
          s.config.node.value(), ": ", s.stray,
          " bytes of clean memory were not zero (see the log)"));
    }
    if (s.kernel.has_value() && s.kernel->anomaly) {
      all.push_back("the kernel's count of reserved huge pages is absurd");
    }
  }
  return all;
}

void Daemon::LogStart() {
  Log(LogLevel::kInfo,
      absl::StrCat("hugepoold ", kVersion, ": ",
                   std::string(machine_->memory()->backend()), " memory, ",
                   std::string(sys::ToString(machine_->memory()->probe_kind())),
                   " probe, ", host_->pools().size(), " pools, at most ",
                   DescriptorLimit(),
                   " extents and connections (RLIMIT_NOFILE)"));
  for (const std::string& w : Warnings()) Log(LogLevel::kWarning, w);
}

void Daemon::Stop() {
  if (stopped_) return;
  stopped_ = true;
  // Its callers are calls that the service would wait for.
  if (verifier_ != nullptr) verifier_->Stop();
  if (revoker_ != nullptr) revoker_->Stop();
  // While clients are told, the pools still take memory back.
  if (service_ != nullptr) service_->Stop(kStopGrace);
  if (host_ != nullptr) {
    for (const auto& pool : host_->pools()) pool->StopFilling();
  }
  // What is being zeroed goes back with the process anyway.
  for (const NodeEngine& engine : engines_) engine.workers->Cancel();
  for (auto& steward : stewards_) steward->Stop();
  if (holders_executor_ != nullptr) holders_executor_->Stop();
  if (executor_ != nullptr) executor_->Stop();
  watch_.reset();  // a grant on the executor could still have used it
}

}  // namespace hugepool::server
