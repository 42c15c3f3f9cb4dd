// Populating fresh pages, which the kernel zeroes, by threads.
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/quickstart/measure.h"
#include "tests/bench/memory_rig.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using Values = std::vector<double>;

struct Figures {
  std::map<int, Values> micros;   // by threads
  std::map<int, Values> speedup;  // of each round
  Values tuned;
  int tuned_threads = 0;
};

double TimeFill(MemoryRig& rig, NodeWorkers& workers) {
  rig.Empty();
  const measure::Stopwatch watch;
  rig.Populate(workers);
  return watch.Micros();
}

Figures Measure(PageSize page_size, Bytes size, int rounds) {
  MemoryRig rig(page_size, size);
  Engines engines(rig, nullptr);
  Figures f;
  for (int i = 0; i < 10; ++i) TimeFill(rig, *engines.tuned);
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\r%s pages: round %d of %d",
                 page_size == k1G ? "1G" : "2M", round + 1, rounds);
    for (auto& [threads, engine] : engines.fixed) {
      f.micros[threads].push_back(TimeFill(rig, *engine));
      f.speedup[threads].push_back(f.micros[1].back() /
                                   f.micros[threads].back());
    }
    f.tuned.push_back(TimeFill(rig, *engines.tuned));
  }
  std::fprintf(stderr, "\n");
  f.tuned_threads = engines.tuned->populating().threads;
  return f;
}

void Tell(const std::string& key, const std::string& name, double gib,
          const Figures& f, Report* report) {
  report->Threads(key, name + ": populated", gib, f.micros);
  report->Series(key + "_tuned",
                 absl::StrCat(name, ": with its own count of threads, ",
                              f.tuned_threads),
                 "us", f.tuned);
  const auto two = f.speedup.find(2);
  if (two == f.speedup.end()) {
    report->Note("one CPU: no second thread to compare with");
    return;
  }
  report->Aim(name + ": speedup of two threads, median of the pairs",
              Median(two->second), Goal::kAtLeast, 1.5);
}

void Run(int rounds, bool json) {
  Report report("fill",
                "populating pages that were given back to the kernel just "
                "before, by threads, in turns");
  Tell("2m", "2M", 1, Measure(k2M, GiB(1), rounds), &report);
  // A 1G page is one piece of work: two of them for two threads.
  Tell("1g", "1G", 2, Measure(k1G, GiB(2), rounds), &report);
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// fill [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 25);
  hugepool::bench::Run(options.rounds, options.json);
}
