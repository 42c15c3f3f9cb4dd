#include "daemon/service/testing/world.h"

#include <unistd.h>

#include <optional>
#include <vector>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/base/views.h"

// ThreadSanitizer asks for it. Debian's gRPC is not built for it: what gRPC
// hands from one of its threads to another looks like a race in the code of its
// headers and in what that calls.
extern "C" const char* __tsan_default_suppressions();  // NOLINT
extern "C" const char* __tsan_default_suppressions() {  // NOLINT
  return "race:grpc::\nrace:grpc_core::\nrace:libgrpc\n";
}

namespace hugepool::service::testing {
namespace {

constexpr uint32_t kTableSize = 4096;

// One for all tests: its self-test makes a child process, which had better come
// before gRPC's threads.
sys::RealHugeMemory& Memory() {
  static sys::RealHugeMemory* const memory = [] {
    auto* made = new sys::RealHugeMemory(sys::Backend::kShmem);
    made->SelfTest();
    return made;
  }();
  return *memory;
}

PoolConfig PoolOf(uint64_t pages) {
  PoolConfig config;
  config.target = PageCount(pages);
  config.low = PageCount(0);
  config.high = PageCount(pages);
  config.shapes = {PageCount(1)};
  config.learn_shapes = false;
  return config;
}

}  // namespace

World::World(const Options& options)
    : options_(options),
      domains_({}, {}),
      files_(kTableSize),
      executor_("test-executor") {
  Memory();
  auto table = ExtentTable::Create(kTableSize);
  HP_CHECK(table.ok(), "an extent table");
  table_ = *std::move(table);
  host_ = std::make_unique<Host>(
      std::vector<PoolConfig>{PoolOf(options.pages)},
      std::vector<NodeId>{NodeId(0)}, table_.get(), Host::Limits());
  Service::Options service;
  service.daemon_uid = geteuid();
  service.listeners.push_back({dir(), options.access, options.domain, false});
  service.listeners.push_back({dir(), AccessRule(), "", true});
  service.facts = {"test", "shmem", "lease", absl::Now(), nullptr,
                   options.ready, nullptr};
  service.admin.config_yaml = [] { return std::string("pools: []\n"); };
  service.admin.set_bandwidth = [this](std::optional<Bytes> per_second) {
    MutexLock lock(&mu_);
    bandwidth_ = per_second;
  };
  // As if every page were clean, and the first byte of each pool were not zero.
  service.admin.verify = [](const std::vector<Pool*>& pools, auto done) {
    Pool::VerifyResult result;
    for (Pool* pool : pools) {
      result.verified += pool->page_size.Of(pool->Snapshot().config.target);
      ++result.stray;
    }
    done(result);
  };
  service.admin.set_pressure_limit = [this](std::optional<uint32_t> percent) {
    MutexLock lock(&mu_);
    pressure_limit_ = percent;
  };
  service.fd = options.fd;
  service_ = std::make_unique<Service>(
      service, Service::Deps{&domains_, &executor_, Clock::Real()});
  manager_ = std::make_unique<LeaseManager>(
      options.leases,
      LeaseManager::Deps{host_.get(), &files_, service_->sender(), &executor_,
                         Clock::Real(), &domains_, service_->news(),
                         [this](const Pool&) {
                           MutexLock lock(&mu_);
                           woken_ = true;
                           wake_.SignalAll();
                         }});
  const absl::Status status = service_->Start(manager_.get(), host_.get());
  HP_CHECK(status.ok(), StdView(status.message()));
  steward_ = std::thread([this] { Steward(); });
}

World::~World() {
  service_->Stop(absl::Seconds(1));
  {
    MutexLock lock(&mu_);
    stop_ = true;
    wake_.SignalAll();
  }
  steward_.join();
  executor_.Stop();
}

void World::PauseSteward(bool paused) {
  MutexLock lock(&mu_);
  paused_ = paused;
  woken_ = true;
  wake_.SignalAll();
}

void World::Steward() {
  while (true) {
    bool paused;
    {
      MutexLock lock(&mu_);
      if (stop_) return;
      woken_ = false;
      paused = paused_;
    }
    if (!paused && Work()) continue;
    MutexLock lock(&mu_);
    if (!woken_ && !stop_) wake_.WaitFor(&mu_, absl::Milliseconds(20));
  }
}

bool World::Work() {
  const absl::Time now = Clock::Real()->Now();
  return Do(pool().TakeQuickWork(now)) ||
         Do(pool().TakeWork(now, std::nullopt));
}

bool World::Do(std::optional<WorkItem> item) {
  if (!item.has_value()) return false;
  const WorkOutcome outcome = Execute(*item);
  const PoolNews news = pool().Settle(*std::move(item), outcome, "",
                                      Clock::Real()->Now());
  executor_.Post([this, news] { manager_->OnNews(news); });
  return true;
}

WorkOutcome World::Execute(const WorkItem& item) {
  switch (item.kind) {
    case WorkKind::kBuild: {
      sys::HugeFile* file = files_.Get(item.slot);
      if (file == nullptr) {
        auto made = Memory().Create(item.page_size, item.pages, item.node);
        if (!made.ok()) return WorkOutcome::kFailed;
        file = &files_.Put(item.slot, *std::move(made));
        pool().SetInode(item, file->inode().value());
      }
      const Bytes size = item.page_size.Of(item.pages);
      if (file->size() < size && !file->Grow(size).ok()) {
        return WorkOutcome::kFailed;
      }
      if (!file->Map(item.node).ok() || !file->Populate(Bytes(0), size).ok()) {
        return WorkOutcome::kFailed;
      }
      file->Unmap();
      return WorkOutcome::kDone;
    }
    case WorkKind::kProbe: {
      sys::HugeFile& file = *files_.Get(item.slot);
      if (!file.TakeInodeBack().ok()) return WorkOutcome::kFailed;
      switch (file.Probe()) {
        case sys::HolderAnswer::kFree:
          return WorkOutcome::kDone;
        case sys::HolderAnswer::kBusy:
          return WorkOutcome::kBusy;
        case sys::HolderAnswer::kUnknown:
          return WorkOutcome::kUnknown;
      }
      return WorkOutcome::kFailed;
    }
    case WorkKind::kSplit:  // nothing is short here: its pages were to be counted
      return WorkOutcome::kDone;
    case WorkKind::kCopy: {
      sys::HugeFile& file = *files_.Get(item.slot);
      if (!file.Map(item.node).ok()) return WorkOutcome::kFailed;
      bool copied = true;
      for (const CopyPiece& p : item.copy) {
        copied = copied &&
                 file.CopyFrom(*files_.Get(p.source), p.from, p.offset, p.length)
                     .ok();
      }
      file.Unmap();
      return copied ? WorkOutcome::kDone : WorkOutcome::kFailed;
    }
    case WorkKind::kVerify:
      return WorkOutcome::kDone;
    case WorkKind::kRetire: {
      auto file = files_.Remove(item.slot);
      if (file != nullptr) file->GiveBack().IgnoreError();
      return WorkOutcome::kDone;
    }
    case WorkKind::kClear:
    case WorkKind::kLetGo:
      break;
  }
  return WorkOutcome::kFailed;
}

bool World::WaitUntil(const std::function<bool()>& done) {
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (!done()) {
    if (absl::Now() > give_up) return false;
    MutexLock lock(&mu_);
    wake_.WaitFor(&mu_, absl::Milliseconds(2));
  }
  return true;
}

bool World::WaitClean() {
  return WaitUntil([this] {
    return pool().Snapshot().in(ExtentState::kClean).value() ==
           options_.pages;
  });
}

}  // namespace hugepool::service::testing
