// Everything wired together: from a configuration to a serving daemon.
#ifndef HUGEPOOL_DAEMON_SERVER_DAEMON_H_
#define HUGEPOOL_DAEMON_SERVER_DAEMON_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/executor.h"
#include "daemon/base/mutex.h"
#include "daemon/clear/calibration.h"
#include "daemon/clear/node_workers.h"
#include "daemon/extent/extent_files.h"
#include "daemon/extent/extent_table.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/lease/revoker.h"
#include "daemon/pool/host.h"
#include "daemon/reclaim/deferred_queue.h"
#include "daemon/reclaim/holder_news.h"
#include "daemon/reclaim/steward.h"
#include "daemon/reclaim/verifier.h"
#include "daemon/server/config/config.h"
#include "daemon/server/machine.h"
#include "daemon/server/pool_reporter.h"
#include "daemon/service/server.h"
#include "daemon/sys/fd_vault.h"
#include "daemon/sys/holders.h"
#include "daemon/sys/inotify_watch.h"
#include "daemon/sys/pressure.h"
#include "daemon/sys/sched_class.h"

namespace hugepool::server {

// Members are made in the order of the layers and die in the opposite one.
// Start and Stop are called by main's thread.
class Daemon {
 public:
  // Makes and starts all of it. Claims the sockets' directories before it
  // touches a page, so that a second daemon on the same ones changes nothing.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config);
  ~Daemon();

  // Ends serving within the grace, whatever clients do; then the stewards; the
  // memory goes back with the process. Idempotent.
  void Stop();

  // Every pool has been filled as far as the kernel's pages go. Stays true.
  bool Ready();

 private:
  explicit Daemon(const Config& config)
      : config_(config), zeroing_(config.zeroing) {}

  absl::Status Make();
  absl::Status MakePools();
  absl::Status MakeStewards();
  void MakeVerifier();
  // For background work; nullptr: it stays in the normal class.
  sys::SchedClass* IdleClass();
  std::vector<service::ZeroingFacts> Zeroing() const;
  std::vector<std::pair<NodeId, DeferredQueue::Stats>> Deferred() const;
  // The configuration with what an admin changed since.
  Config ConfigNow();
  void TellStray(NodeId node, uint64_t bytes);
  void SetBandwidth(std::optional<Bytes> per_second);
  void SetPressureLimit(std::optional<uint32_t> percent);
  absl::Status MakeService();
  void Wake(const Pool& pool);
  std::vector<PoolSnapshot> Snapshots() const;
  void WatchPools();
  void TellProgress();
  std::vector<std::string> Warnings();
  void LogStart();

  const Config config_;
  Mutex zeroing_mu_;
  ZeroingConfig zeroing_ HP_GUARDED_BY(zeroing_mu_);  // with an admin's changes
  Mutex warnings_mu_;
  std::vector<std::string> warnings_
      HP_GUARDED_BY(warnings_mu_);  // of the start
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<ExtentFiles> files_;
  sys::NoVault vault_;
  sys::LinuxSchedClass sched_;
  const sys::CgroupPressure pressure_;
  std::unique_ptr<Host> host_;
  // By node. Outlives leases and stewards.
  std::map<NodeId, DeferredQueue> deferred_;
  std::unique_ptr<ThreadExecutor> executor_;
  // For what walks /proc.
  std::unique_ptr<ThreadExecutor> holders_executor_;
  sys::ProcHolders holders_;
  std::unique_ptr<Domains> domains_;
  // relaxed: a latch; being late by one look is harmless.
  std::atomic<bool> ready_{false};

  // By node. All made before the service, and as many as stewards.
  struct NodeEngine {
    NodeId node;
    RoutineRate stores;
    std::unique_ptr<NodeWorkers> workers;
  };
  std::vector<NodeEngine> engines_;
  std::vector<std::unique_ptr<Steward>> stewards_;  // by node
  std::vector<std::pair<NodeId, Steward*>> steward_of_;

  std::unique_ptr<HolderNews> holder_news_;
  std::unique_ptr<sys::InotifyWatch> watch_;
  std::unique_ptr<LeaseManager> manager_;
  std::unique_ptr<service::Service> service_;
  std::unique_ptr<Verifier> verifier_;
  std::unique_ptr<Revoker> revoker_;
  // Both used on the executor only.
  std::unique_ptr<PoolReporter> reporter_;
  bool progress_is_due_ = false;
  bool stopped_ = false;
};

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_DAEMON_H_
