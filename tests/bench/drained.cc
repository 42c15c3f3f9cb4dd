// How long a client waits that asks a pool for all of it when another has just
// given all of it back (N18): against the zeroing alone.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hugepool.hpp"
#include "deploy/quickstart/measure.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/memory_rig.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using measure::Stopwatch;

constexpr uid_t kClientUid = 65534;
constexpr uint64_t kSize = uint64_t{1} << 30;

// One way to make the pool clean again.
struct Way {
  std::string key;
  std::string name;
  bool in_place;
};

struct Figures {
  std::vector<double> zeroing;              // by the engine alone, microseconds
  std::vector<double> wait;                 // the one client's
  std::vector<double> second;               // the second one's, of two who wait
  std::vector<double> ratio, second_ratio;  // of each round
};

void GiveBack(Lease lease) {
  if (auto released = lease.Release(); !released) {
    std::fprintf(stderr, "%s\n", released.error().message());
    std::exit(1);
  }
}

// Three clients of one user, who is not root: nothing of root's is cleared in
// place.
struct Clients {
  Clients(BenchDaemon& daemon, const Request& request) {
    if (seteuid(kClientUid) != 0) std::abort();
    for (int i = 0; i < 3; ++i) {
      all.push_back(std::make_unique<Client>(daemon.Connect()));
      GiveBack(MustAcquire(*all.back(), request));  // opens the connections
    }
    if (seteuid(0) != 0) std::abort();
  }
  std::vector<std::unique_ptr<Client>> all;
};

// Until so many wait, of the domain that this process is of as well.
void WaitForWaiters(testing::RawCalls& calls, int count) {
  while (true) {
    const auto status = calls.GetStatus();
    if (status.ok() && status->waits_size() == count) return;
    poll(nullptr, 0, 1);
  }
}

double TimeZeroing(MemoryRig& rig, NodeWorkers& workers, bool in_place) {
  const Stopwatch watch;
  if (in_place) {
    rig.Zero(workers);
  } else {
    rig.Empty();
    rig.Populate(workers);
  }
  return watch.Micros();
}

// A gives all back, B asks for it at once.
double TimeOne(Clients& clients, const Request& request) {
  Lease a = MustAcquire(*clients.all[0], request);
  const Stopwatch watch;
  GiveBack(std::move(a));
  Lease b = MustAcquire(*clients.all[1], request);
  const double micros = watch.Micros();
  GiveBack(std::move(b));
  return micros;
}

// B and C wait for what A has; B gives it back as soon as it has it. C's wait.
double TimeTwo(Clients& clients, const Request& request,
               testing::RawCalls& calls) {
  Lease a = MustAcquire(*clients.all[0], request);
  std::thread b([&] { GiveBack(MustAcquire(*clients.all[1], request)); });
  WaitForWaiters(calls, 1);
  double micros = 0;
  Stopwatch watch;
  std::thread c([&] {
    Lease lease = MustAcquire(*clients.all[2], request);
    micros = watch.Micros();
    GiveBack(std::move(lease));
  });
  WaitForWaiters(calls, 2);
  watch = Stopwatch();
  GiveBack(std::move(a));
  b.join();
  c.join();
  return micros;
}

Figures Measure(PageSize page_size, const Way& way, int rounds) {
  MemoryRig rig(page_size, Bytes(kSize));
  const auto stores =
      ChooseStores("auto", MeasureStores(rig.data(), MiB(64), *Clock::Real()));
  if (!stores.ok()) std::abort();
  Engines engines(rig, *stores);
  BenchDaemon daemon(absl::StrCat(
      "backend: hugetlb\n"
      "zeroing: {bandwidth: none}\n"
      "listeners: [{dir: @DIR@, group: \"*\", domain: all}]\n"
      "domains: [{name: all, reuse: ",
      way.in_place ? "in-place" : "retire", "}]\npools: [{page_size: ",
      page_size.bytes().value(), ", target: ", kSize, "}]\n"));
  const uint64_t page_bytes = page_size.bytes().value();
  daemon.WaitClean(page_bytes);
  Request request =
      Request().Segment(kSize, {}, {page_bytes}).Wait(std::chrono::seconds(60));
  if (way.in_place) request.Flags(HP_REQUEST_PRIVATE);
  Clients clients(daemon, request);
  testing::RawCalls calls(daemon.dir());
  for (int i = 0; i < 5; ++i) {  // finds its count of threads
    TimeZeroing(rig, *engines.tuned, way.in_place);
    TimeOne(clients, request);
  }
  Figures f;
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\r%s pages, %s: round %d of %d",
                 page_size == k1G ? "1G" : "2M", way.name.c_str(), round + 1,
                 rounds);
    daemon.WaitClean(page_bytes);
    f.zeroing.push_back(TimeZeroing(rig, *engines.tuned, way.in_place));
    f.wait.push_back(TimeOne(clients, request));
    f.ratio.push_back(f.wait.back() / f.zeroing.back());
    daemon.WaitClean(page_bytes);
    f.second.push_back(TimeTwo(clients, request, calls));
    f.second_ratio.push_back(f.second.back() / f.zeroing.back());
  }
  std::fprintf(stderr, "\n");
  return f;
}

void Run(int rounds, bool json) {
  Report report(
      "drained",
      "1 GiB, all of a pool, is given back and asked for by another at once;\n"
      "against the daemon's engine giving back and populating (or zeroing) as\n"
      "much in this process, in turns");
  const Way ways[] = {{"retire", "retired", false},
                      {"in_place", "cleared in place", true}};
  for (const PageSize page_size : {k2M, k1G}) {
    const std::string size = page_size == k1G ? "1G" : "2M";
    for (const Way& way : ways) {
      const Figures f = Measure(page_size, way, rounds);
      const std::string key = (page_size == k1G ? "1g_" : "2m_") + way.key;
      const std::string name = size + ", " + way.name;
      report.Series(key + "_zeroing", name + ": zeroing alone", "us",
                    f.zeroing);
      report.Series(key + "_wait", name + ": wait", "us", f.wait);
      report.Series(key + "_second", name + ": the second of two", "us",
                    f.second);
      report.Aim(name + ": wait against zeroing alone", Median(f.ratio),
                 Goal::kAtMost, 1.15);
      report.Aim(name + ": the second of two who wait", Median(f.second_ratio),
                 Goal::kAtMost, 2.2);
    }
  }
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// drained [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 15);
  hugepool::bench::Run(options.rounds, options.json);
}
