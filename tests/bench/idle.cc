// What a daemon costs that has nothing to do.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/units.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

constexpr uint64_t kStuck = 1000;
constexpr uint64_t kAtATime = 250;  // extents of a lease, well below the limit
constexpr double kAim = 0.1;        // percent of one CPU

// Percent of one CPU, all threads of the daemon.
double Load(const BenchDaemon& daemon, int seconds) {
  const double before = daemon.CpuMicros();
  for (int i = 0; i < seconds; ++i) poll(nullptr, 0, 1000);
  return (daemon.CpuMicros() - before) / (seconds * 1e6) * 100;
}

void RaiseFileLimit() {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Released, but still open somewhere: returning, and charged.
std::vector<int> Stick(Client& client) {
  std::vector<int> fds;
  while (fds.size() < kStuck) {
    Lease lease = MustAcquire(
        client,
        Request().Segment(kAtATime * MiB(2).value(), {}, {MiB(2).value()}));
    for (size_t i = 0; i < lease.extent_count(); ++i) {
      fds.push_back(fcntl(lease.extent(i).fd, F_DUPFD_CLOEXEC, 0));
      if (fds.back() < 0) {
        std::perror("dup");
        std::exit(1);
      }
    }
    if (!lease.Release()) std::exit(1);
  }
  return fds;
}

void Run(int seconds, bool json) {
  NeedFreePages(MiB(2).value(), MiB(2).value() * (kStuck + 16));
  RaiseFileLimit();
  BenchDaemon daemon(
      absl::StrCat("backend: hugetlb\n"
                   "zeroing: {bandwidth: none}\n"
                   "pools: [{page_size: 2MiB, target: ",
                   (kStuck + 16) * 2, "MiB, shapes: [2MiB]}]\n"));
  daemon.WaitClean(MiB(2).value());
  poll(nullptr, 0, 3000);
  Report report(
      "idle",
      absl::StrCat("The daemon's CPU time over ", seconds,
                   " s, of all its threads: with a full pool of ", kStuck + 16,
                   " extents, with a client\nconnected, and with ", kStuck,
                   " extents that were released and are still open"));
  std::vector<std::pair<std::string, double>> loads;
  loads.emplace_back("full pool at rest", Load(daemon, seconds));
  Client client = daemon.Connect();
  loads.emplace_back("with a client connected", Load(daemon, seconds));
  const std::vector<int> fds = Stick(client);
  // Looks at them back off from 50 ms to a minute, which takes 102 s.
  for (int i = 0; i < 110; ++i) poll(nullptr, 0, 1000);
  loads.emplace_back(absl::StrCat(fds.size(), " extents stuck returning"),
                     Load(daemon, seconds));
  if (const auto stuck = daemon.ReturningBytes();
      stuck != fds.size() * MiB(2).value()) {
    std::fprintf(stderr, "only %llu bytes are returning\n",
                 static_cast<unsigned long long>(stuck));
    std::exit(1);
  }
  int i = 0;
  for (const auto& [what, load] : loads) {
    report.Figure(absl::StrCat("load_", i++), what, "% of a CPU", load);
    report.Aim(what + ": % of a CPU", load, Goal::kAtMost, kAim);
  }
  for (const int fd : fds) close(fd);
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// idle [--json] [--rounds=SECONDS]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 20);
  hugepool::bench::Run(options.rounds, options.json);
}
