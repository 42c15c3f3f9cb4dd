// The daemon of a bench.
#ifndef HUGEPOOL_TESTS_BENCH_BENCH_DAEMON_H_
#define HUGEPOOL_TESTS_BENCH_BENCH_DAEMON_H_

#include <ctime>
#include <memory>
#include <string>

#include "client/hugepool.hpp"
#include "tests/harness/daemon_process.h"
#include "tests/harness/raw_client.h"

namespace hugepool::bench {

// A hugepoold of its own, with clean pools. A bench cannot go on without: what
// fails is told and ends the process.
class BenchDaemon {
 public:
  // `config`: YAML. @DIR@ is the directory of the sockets.
  explicit BenchDaemon(const std::string& config);
  ~BenchDaemon();
  BenchDaemon(const BenchDaemon&) = delete;
  BenchDaemon& operator=(const BenchDaemon&) = delete;

  const std::string& dir() const { return process_->dir(); }
  // HP_CONNECT_*
  Client Connect(uint32_t flags = 0);
  // Until the pool of this page size has nothing but clean memory, as much as
  // its target (or all but `leased_bytes`); the daemon is at rest then.
  void WaitClean(uint64_t page_size, uint64_t leased_bytes = 0);
  // What was released and is still open or mapped somewhere, of all pools.
  uint64_t ReturningBytes();
  // CPU time that the daemon has used, in microseconds.
  double CpuMicros() const;

 private:
  std::unique_ptr<testing::DaemonProcess> process_;
  std::unique_ptr<testing::RawCalls> calls_;
};

// CPU time that this process has used, in microseconds.
double OwnCpuMicros();

// Acquires, or ends the process with the error.
Lease MustAcquire(Client& client, const Request& request);

// Ends the process unless the kernel has so many bytes of free pages.
void NeedFreePages(uint64_t page_size, uint64_t bytes);

}  // namespace hugepool::bench

#endif  // HUGEPOOL_TESTS_BENCH_BENCH_DAEMON_H_
