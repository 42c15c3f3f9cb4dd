// What clients get that lease, write all once, and give back, without pause.
#include <poll.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "deploy/quickstart/measure.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/report.h"
#include "tests/harness/child_process.h"
#include "tests/harness/line.h"

namespace hugepool::bench {
namespace {

using measure::kMiB;

constexpr std::size_t k2MiB = 2 * kMiB;
constexpr std::size_t kLeaseBytes = 256 * kMiB;
constexpr uint32_t kClientUid = 65534;
constexpr double kWarmUpMicros = 5e5;
// How long a paced client keeps what it has written, doing nothing: about four
// times as long as it wrote.
constexpr int kHoldMillis = 50;
constexpr double kGiBs = static_cast<double>(measure::kGiB);

// ------------------------------------------------------------- the client

struct Tally {
  uint64_t bytes = 0, leases = 0, hits = 0;
  double waited = 0;  // microseconds in which it had no memory
};

void Hold(bool paced) {
  if (paced) poll(nullptr, 0, kHoldMillis);
}

void Step(Client* client, const Request& request, bool paced, Tally* tally) {
  const measure::Stopwatch watch;
  if (client == nullptr) {
    const measure::KernelMemory memory(kLeaseBytes, k2MiB,
                                       measure::KernelWay::kPopulate);
    if (memory.data() == nullptr) {
      std::perror("mmap(MAP_HUGETLB | MAP_POPULATE)");
      std::exit(1);
    }
    tally->waited += watch.Micros();
    std::memset(memory.data(), 1, kLeaseBytes);
    Hold(paced);
  } else {
    const Lease lease = MustAcquire(*client, request);
    tally->waited += watch.Micros();
    if (lease.waited().count() == 0) ++tally->hits;
    std::memset(lease.segment(0).data, 1, kLeaseBytes);
    Hold(paced);
  }
  ++tally->leases;
  tally->bytes += kLeaseBytes;
}

// A process of its own: --client WAY DIR SECONDS. WAY is kernel, retire or
// in-place, or one of them with "paced-" before it. Says what it did after a warm-up, and its CPU time in all.
void ClientMain(std::string way, const std::string& dir, double seconds) {
  const bool paced = way.rfind("paced-", 0) == 0;
  if (paced) way.erase(0, 6);
  std::unique_ptr<Client> client;
  Request request = Request()
                        .Segment(kLeaseBytes, {}, {k2MiB})
                        .Wait(std::chrono::seconds(60));
  if (way == "in-place") request.Flags(HP_REQUEST_PRIVATE);
  if (way != "kernel") {
    auto connected = Client::Connect(dir);
    if (!connected) {
      std::fprintf(stderr, "%s\n", connected.error().message());
      std::exit(1);
    }
    client = std::make_unique<Client>(connected.take());
  }
  Tally all;
  for (const measure::Stopwatch w; w.Micros() < kWarmUpMicros;) {
    Step(client.get(), request, paced, &all);
  }
  Tally counted;
  const measure::Stopwatch watch;
  while (watch.Micros() < seconds * 1e6) {
    Step(client.get(), request, paced, &counted);
  }
  const double micros = watch.Micros();
  testing::Line line("ok");
  line.Set("bytes", counted.bytes)
      .Set("all_bytes", counted.bytes + all.bytes)
      .Set("leases", counted.leases)
      .Set("hits", counted.hits)
      .Set("waited", static_cast<uint64_t>(counted.waited))
      .Set("micros", static_cast<uint64_t>(micros))
      .Set("cpu", static_cast<uint64_t>(OwnCpuMicros()));
  std::printf("%s\n", line.Text().c_str());
}

// -------------------------------------------------------------- the bench

struct Figures {
  std::vector<double> rate, cpu, waiting, hits;  // one of each a phase
};

std::string Self() {
  char path[PATH_MAX] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) std::abort();
  return path;
}

// All clients at once, under a user who is neither root nor the daemon.
void Phase(BenchDaemon& daemon, const std::string& way, int clients,
           double seconds, Figures* f) {
  daemon.WaitClean(k2MiB);
  const double daemon_cpu = daemon.CpuMicros();
  std::vector<std::unique_ptr<testing::ChildProcess>> children;
  for (int i = 0; i < clients; ++i) {
    auto child = testing::ChildProcess::Start(
        {Self(), "--client", way, daemon.dir(), absl::StrCat(seconds)},
        {.uid = kClientUid, .gid = kClientUid});
    if (!child.ok()) {
      std::fprintf(stderr, "%s\n", child.status().ToString().c_str());
      std::exit(1);
    }
    children.push_back(*std::move(child));
  }
  double rate = 0, bytes = 0, cpu = 0, waited = 0, micros = 0;
  double leases = 0, hits = 0;
  for (auto& child : children) {
    const auto text = child->ReadLine(absl::Seconds(120));
    const testing::Line line = testing::Line::Parse(text.value_or("ended"));
    if (!line.ok()) {
      std::fprintf(stderr, "a client (%s) failed\n", way.c_str());
      std::exit(1);
    }
    const auto number = [&](const char* key) {
      return static_cast<double>(line.Number(key));
    };
    rate += number("bytes") / kGiBs / (number("micros") / 1e6);
    bytes += number("all_bytes");
    cpu += number("cpu");
    waited += number("waited");
    micros += number("micros");
    leases += number("leases");
    hits += number("hits");
  }
  children.clear();
  daemon.WaitClean(k2MiB);
  cpu += daemon.CpuMicros() - daemon_cpu;
  f->rate.push_back(rate);
  f->cpu.push_back(cpu / 1e3 / (bytes / kGiBs));
  f->waiting.push_back(100 * waited / micros);
  f->hits.push_back(leases > 0 ? 100 * hits / leases : 0);
}

struct Measured {
  Figures kernel, retire, in_place, paced_kernel, paced_retire;
};

void Tell(const Measured& m, int clients, bool json) {
  Report report(
      "churn",
      absl::StrCat(clients,
                   " clients lease 256 MiB of 2M pages, write all once and "
                   "release, without pause; against\n"
                   "populating for themselves (mmap(MAP_HUGETLB|MAP_POPULATE)); "
                   "in turns. Paced: each holds\n"
                   "what it wrote for ",
                   kHoldMillis, " ms"));
  const auto tell = [&](const std::string& key, const std::string& name,
                        const Figures& f, bool pool) {
    report.Series(key + "_rate", name + ": written in all", "GiB/s", f.rate);
    report.Series(key + "_cpu", name + ": CPU of all", "ms/GiB", f.cpu);
    report.Series(key + "_waiting", name + ": clients without memory", "%",
                  f.waiting);
    if (pool) {
      report.Series(key + "_hits", name + ": leases without waiting", "%",
                    f.hits);
    }
  };
  tell("kernel", "each for itself", m.kernel, false);
  tell("retire", "leased, retired", m.retire, true);
  tell("in_place", "leased, cleared in place", m.in_place, true);
  tell("paced_kernel", "paced, each for itself", m.paced_kernel, false);
  tell("paced_retire", "paced, leased, retired", m.paced_retire, true);
  const auto ratio = [](const Figures& a, const Figures& b) {
    return measure::Median(a.rate) / measure::Median(b.rate);
  };
  report.Aim("cleared in place: rate against each for itself",
             ratio(m.in_place, m.kernel), Goal::kAtLeast, 2);
  report.Aim("retired, paced: rate against each for itself",
             ratio(m.paced_retire, m.paced_kernel), Goal::kAtLeast, 1);
  report.Aim("retired, paced: share of time that clients wait",
             measure::Median(m.paced_retire.waiting) / 100, Goal::kAtMost,
             0.02);
  report.Figure("retire_ratio", "retired, no pause: rate against each for itself",
                "x", ratio(m.retire, m.kernel));
  report.Note(
      "Without pause every CPU writes or zeroes all the time, in either way: the "
      "kernel zeroes as much for the pool as for the clients, so that retiring "
      "can at best keep up and its clients wait. What a pool is for, zeroing "
      "while CPUs idle, needs some that do: hence the paced clients.");
  report.Print(std::cout, json);
}

void Run(int rounds, double seconds, bool json) {
  const int clients =
      std::max(1u, std::min(4u, std::thread::hardware_concurrency()));
  // A pool of three leases a client, and what they take of the kernel.
  const uint64_t pool_bytes = 3 * kLeaseBytes * static_cast<uint64_t>(clients);
  NeedFreePages(k2MiB,
                pool_bytes + kLeaseBytes * static_cast<uint64_t>(clients));
  BenchDaemon daemon(
      absl::StrCat("backend: hugetlb\n"
                   "zeroing: {bandwidth: none}\n"
                   "listeners: [{dir: @DIR@, group: \"*\"}]\n"
                   "domains: [{name: \"uid:",
                   kClientUid,
                   "\", reuse: in-place}]\n"
                   "pools: [{page_size: 2MiB, target: ",
                   pool_bytes >> 20, "MiB, shapes: [256MiB]}]\n"));
  Measured m;
  for (int i = 0; i < rounds; ++i) {
    std::fprintf(stderr, "\rround %d of %d", i + 1, rounds);
    Phase(daemon, "kernel", clients, seconds, &m.kernel);
    Phase(daemon, "retire", clients, seconds, &m.retire);
    Phase(daemon, "in-place", clients, seconds, &m.in_place);
    Phase(daemon, "paced-kernel", clients, seconds, &m.paced_kernel);
    Phase(daemon, "paced-retire", clients, seconds, &m.paced_retire);
  }
  std::fprintf(stderr, "\n");
  Tell(m, clients, json);
}

}  // namespace
}  // namespace hugepool::bench

// churn [--json] [--rounds=N] [--seconds=S]
int main(int argc, char** argv) {
  bool json = false;
  int rounds = 5;
  double seconds = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--client" && i + 3 < argc) {
      hugepool::bench::ClientMain(argv[i + 1], argv[i + 2],
                                  std::atof(argv[i + 3]));
      return 0;
    }
    if (arg == "--json") json = true;
    if (arg.rfind("--rounds=", 0) == 0) rounds = std::atoi(arg.c_str() + 9);
    if (arg.rfind("--seconds=", 0) == 0) seconds = std::atof(arg.c_str() + 10);
  }
  hugepool::bench::Run(rounds, seconds, json);
}
