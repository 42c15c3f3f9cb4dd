// The daemon's deterministic core on the model of the kernel, with clients, for
// op-sequence tests. Every operation is a method with plain numbers, so that a
// failing sequence can be printed, pasted into a test, and run again.
#ifndef HUGEPOOL_TESTS_CORE_CORE_WORLD_H_
#define HUGEPOOL_TESTS_CORE_CORE_WORLD_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/clock.h"
#include "daemon/base/executor.h"
#include "daemon/clear/engine.h"
#include "daemon/extent/extent_files.h"
#include "daemon/extent/extent_table.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/pool/host.h"
#include "daemon/reclaim/deferred_queue.h"
#include "daemon/reclaim/holder_news.h"
#include "daemon/reclaim/steward.h"
#include "daemon/sys/fake_huge_memory.h"
#include "daemon/sys/fd_vault.h"

namespace hugepool {

class CoreWorld {
 public:
  struct Options {
    bool let_go = false;  // a kernel without a probe
    bool honest = false;  // holders neither punch, truncate nor chmod
  };
  // Clients 0..kClients-1. Even ones belong to a domain that may reuse in
  // place; the last two share a domain that retires.
  static constexpr int kClients = 6;

  explicit CoreWorld(const Options& options);
  ~CoreWorld();

  // --- Operations -----------------------------------------------------------
  // Clients.
  void Connect(int client);
  void Hang(int client);  // the connection drops, the process lives
  void Kill(int client);  // the process dies, and its holdings with it
  // `flags`: 1 private, 2 sealed, 4 reopenable, 8 wait, 16 memory lifetime,
  // 32 one extent, 64 named.
  void Acquire(int client, int pages, int gigantic, int node, int flags);
  // Acquires a copy of `pages` of the client's n-th lease, from page `from` on.
  void Copy(int client, int n, int from, int pages, int flags);
  // Takes the oldest grant that arrived, checks that it is zero (a copy: that it
  // has bytes of its source only), fills it with a pattern of its own, and
  // acknowledges or refuses it.
  void Receive(int client, int acknowledge);
  // Releases the n-th lease of the client; with `keep` its memory stays mapped
  // and is written to later.
  void Release(int client, int n, int keep);
  void DropKept(int n);
  // An operator takes the lease of the n-th holding back.
  void Revoke(int n, int notice_ms);
  // Releases `count` pages from the `first` of the n-th holding on; what was released
  // before makes the call fail.
  void ReleasePages(int n, int first, int count);
  // Holders, honest or not: works on the n-th holding.
  void WriteAgain(int n);
  void ForkAndKeep(int n);
  void Reopen(int n);
  void Punch(int n, int page);
  void Truncate(int n);
  void Chmod(int n);
  void Pin(int n);
  void Unpin(int n);
  // The daemon's own steps.
  void Step(int count);
  void StepAhead(int count);
  void Deliver();
  // Clean memory of the n-th pool is looked at: all of it, or a sample.
  void Verify(int n, int sample);
  // The pages of extents that lack some are counted.
  void Recount();
  void LoseEvents();
  void Advance(int milliseconds);
  // The machine.
  void TakeOutside(int pages);
  void ReturnOutside();
  void FailSomething(int which);

  // --- Checks ---------------------------------------------------------------
  // Empty: all is well; the first thing that is wrong otherwise.
  std::string Check();
  // Everybody leaves; afterwards all memory must be back and clean.
  std::string CheckAllComesBack();

  // Extents that clients received: a run that lends nothing proves nothing.
  uint64_t received() const { return received_; }
  // Of those, of copies.
  uint64_t copied() const { return copied_; }
  // Orders to revoke that were carried out.
  int revoked() const { return revoked_; }
  // Bytes given back out of leases that lived on, by the pools' own figures.
  Bytes split() const;

 private:
  // One extent in some process's hands.
  struct Holding {
    sys::FakeHolder holder;
    LeaseId lease;
    int client = 0;
    uint64_t pages = 0;
    uint8_t tag = 0;
    bool live = true;      // of a lease that was not given up
    bool tampered = false;  // its own doing: content is not checked
    uint32_t segment = 0;   // where in the lease
    Bytes offset{};
    // Given up; kept by all who hold the same.
    std::shared_ptr<std::set<uint64_t>> released =
        std::make_shared<std::set<uint64_t>>();
  };
  struct Arrived {
    GrantFrame frame;
  };
  class Sender;
  class Sink;
  struct Client {
    std::optional<LeaseManager::SessionInfo> session;
    bool connected = false;
    std::vector<Arrived> arrived;
    std::vector<LeaseId> leases;
  };

  Identity WhoIs(int client) const;
  void Settle();
  void Fault(std::string text);
  void CheckContents();
  bool MayRead(const GrantFrame& frame, uint8_t byte) const;
  Holding* PickHolding(int n, bool live_only = false);
  void DropHoldings(int client);
  std::string CheckRecount(bool quiescent);
  // The extents of which the books and the files say different things.
  std::string WhereTheyDiffer(const Pool& pool);

  const Options options_;
  FakeClock clock_;
  sys::FakeKernel kernel_;
  std::unique_ptr<sys::FakeHugeMemory> memory_;
  std::unique_ptr<sys::FakeKernelPools> counters_;
  sys::FakeVault vault_;
  std::unique_ptr<ManualExecutor> executor_;
  std::unique_ptr<ExtentTable> table_;
  std::unique_ptr<ExtentFiles> files_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<HolderNews> news_;
  std::unique_ptr<sys::FakeHolderWatch> watch_;
  std::unique_ptr<Domains> domains_;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Sink> sink_;
  std::map<NodeId, DeferredQueue> deferred_;
  std::unique_ptr<LeaseManager> manager_;
  InlineEngine engine_;
  std::vector<std::unique_ptr<Steward>> stewards_;

  std::vector<Client> clients_;
  std::vector<Holding> holdings_;
  std::vector<sys::FakePin> pins_;
  PageCount outside_;
  int requests_ = 0;
  uint64_t passes_ = 0;  // StartVerify() so far
  // What was written into a lease, and the source of each request for a copy.
  std::map<LeaseId, std::set<uint8_t>> tags_of_;
  std::map<std::string, LeaseId> copies_;
  // Leases that an operator wants back: what is in them is nobody's any more.
  std::set<LeaseId> to_revoke_;
  int orders_ = 0;
  int answers_ = 0;
  int revoked_ = 0;
  uint64_t received_ = 0;
  uint64_t copied_ = 0;
  uint8_t next_tag_ = 1;
  bool punched_ = false;
  // Somebody touched what it had released, and nothing was counted since.
  bool stole_ = false;
  bool ever_stole_ = false;
  bool events_lost_ = false;
  std::string fault_;
};

}  // namespace hugepool

#endif  // HUGEPOOL_TESTS_CORE_CORE_WORLD_H_
