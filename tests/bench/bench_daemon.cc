#include "tests/bench/bench_daemon.h"

#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace hugepool::bench {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

double Micros(clockid_t clock) {
  timespec t = {};
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) * 1e6 +
         static_cast<double>(t.tv_nsec) / 1e3;
}

}  // namespace

BenchDaemon::BenchDaemon(const std::string& config) {
  testing::DaemonOptions options;
  options.config = config;
  options.start_within = kPatience;
  auto started = testing::DaemonProcess::Start(options);
  if (!started.ok()) Die(started.status().ToString());
  process_ = std::move(*started);
  calls_ = std::make_unique<testing::RawCalls>(dir());
}

BenchDaemon::~BenchDaemon() {
  calls_.reset();
  const auto stopped = process_->Stop();
  if (!stopped.ok()) Die(stopped.ToString());
}

Client BenchDaemon::Connect(uint32_t flags) {
  hp_connect_options options = HP_CONNECT_OPTIONS_INIT;
  options.flags = flags;
  auto client = Client::Connect(dir(), options);
  if (!client) Die(client.error().message());
  return client.take();
}

void BenchDaemon::WaitClean(uint64_t page_size, uint64_t leased_bytes) {
  const absl::Time deadline = absl::Now() + kPatience;
  std::string last = "no pool of this page size";
  for (;;) {
    const auto status = calls_->GetStatus();
    if (!status.ok()) Die(status.status().ToString());
    for (const v1::PoolStatus& pool : status->pools()) {
      if (pool.page_size() != page_size) continue;
      if (pool.clean_bytes() + leased_bytes >= pool.target_bytes() &&
          pool.populating_bytes() + pool.retiring_bytes() == 0) {
        return;
      }
      last = pool.ShortDebugString();
    }
    if (absl::Now() > deadline) Die("the pool does not become clean: " + last);
    poll(nullptr, 0, 10);
  }
}

uint64_t BenchDaemon::ReturningBytes() {
  const auto status = calls_->GetStatus();
  if (!status.ok()) Die(status.status().ToString());
  uint64_t bytes = 0;
  for (const v1::PoolStatus& pool : status->pools()) {
    bytes += pool.returning_bytes();
  }
  return bytes;
}

double BenchDaemon::CpuMicros() const {
  clockid_t clock;
  if (clock_getcpuclockid(process_->pid(), &clock) != 0) return 0;
  return Micros(clock);
}

double OwnCpuMicros() { return Micros(CLOCK_PROCESS_CPUTIME_ID); }

Lease MustAcquire(Client& client, const Request& request) {
  auto lease = client.Acquire(request);
  if (!lease) {
    Die(absl::StrCat(lease.error().message(), ". ", lease.error().hint()));
  }
  return lease.take();
}

void NeedFreePages(uint64_t page_size, uint64_t bytes) {
  uint64_t free = 0;
  std::ifstream(absl::StrCat("/sys/kernel/mm/hugepages/hugepages-",
                             page_size / 1024, "kB/free_hugepages")) >>
      free;
  if (free >= bytes / page_size) return;
  Die(absl::StrCat("needs ", bytes / page_size, " free pages of ",
                   page_size / 1024, " KiB, there are ", free,
                   "; tests/bench/run.sh gets them (as root)"));
}

}  // namespace hugepool::bench
