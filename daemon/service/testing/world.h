// A whole daemon in a test: books, leases and service on ordinary memory.
#ifndef HUGEPOOL_DAEMON_SERVICE_TESTING_WORLD_H_
#define HUGEPOOL_DAEMON_SERVICE_TESTING_WORLD_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "daemon/base/executor.h"
#include "daemon/base/mutex.h"
#include "daemon/extent/extent_files.h"
#include "daemon/extent/extent_table.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/pool/host.h"
#include "daemon/service/server.h"
#include "daemon/service/testing/test_dir.h"
#include "daemon/sys/real_huge_memory.h"

namespace hugepool::service::testing {

// One pool of 2 MiB "pages" of shared memory on node 0, and one steward thread.
// Clients and admins share dir().
class World {
 public:
  struct Options {
    uint64_t pages = 8;
    LeaseManager::Options leases;
    FdChannel::Options fd;
    AccessRule access;  // of the clients' listener
    std::string domain;
    std::function<bool()> ready;
  };
  explicit World(const Options& options);
  World() : World(Options()) {}
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::string dir() const { return dir_.path() + "/pool"; }
  LeaseManager& manager() { return *manager_; }
  Service& service() { return *service_; }
  Host& host() { return *host_; }
  Pool& pool() { return *host_->pools()[0]; }
  Domains& domains() { return domains_; }

  // As an admin set it last; 0 before.
  std::optional<uint32_t> pressure_limit() {
    MutexLock lock(&mu_);
    return pressure_limit_;
  }
  std::optional<Bytes> bandwidth() {
    MutexLock lock(&mu_);
    return bandwidth_;
  }

  // Until `done` is true; false after 20 s. Looked at whenever something
  // happens in the world, and every few milliseconds.
  bool WaitUntil(const std::function<bool()>& done);
  // Until all of the pool's pages are clean.
  bool WaitClean();
  // Stewards do nothing meanwhile: what returns stays away.
  void PauseSteward(bool paused);

 private:
  void Steward();
  bool Work();
  bool Do(std::optional<WorkItem> item);
  WorkOutcome Execute(const WorkItem& item);

  const Options options_;
  TestDir dir_;
  Domains domains_;
  std::unique_ptr<ExtentTable> table_;
  ExtentFiles files_;
  std::unique_ptr<Host> host_;
  ThreadExecutor executor_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<LeaseManager> manager_;

  Mutex mu_;
  CondVar wake_;
  bool stop_ HP_GUARDED_BY(mu_) = false;
  bool woken_ HP_GUARDED_BY(mu_) = false;
  bool paused_ HP_GUARDED_BY(mu_) = false;
  std::optional<Bytes> bandwidth_ HP_GUARDED_BY(mu_) = Bytes(0);
  std::optional<uint32_t> pressure_limit_ HP_GUARDED_BY(mu_) = 0;
  std::thread steward_;
};

}  // namespace hugepool::service::testing

#endif  // HUGEPOOL_DAEMON_SERVICE_TESTING_WORLD_H_
