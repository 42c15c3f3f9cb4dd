// Zeroing in place: by threads, against the plainest loop that user space can
// write, and against giving the pages back and having the kernel zero new ones.
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/quickstart/measure.h"
#include "tests/bench/memory_rig.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using Values = std::vector<double>;

struct Figures {
  std::map<int, Values> engine, raw, again;  // by threads, microseconds
  Values tuned;
  std::vector<RoutineRate> rates;
  int tuned_threads = 0;
};

template <typename F>
void Time(Values* values, F&& work) {
  const measure::Stopwatch watch;
  work();
  values->push_back(watch.Micros());
}

Figures Measure(PageSize page_size, int rounds) {
  MemoryRig rig(page_size, GiB(1));
  Figures f;
  f.rates = MeasureStores(rig.data(), MiB(64), *Clock::Real());
  const StoreRoutine* const stores = f.rates.front().routine;
  Engines engines(rig, stores);
  // Until it has found its count.
  for (int i = 0; i < 20; ++i) rig.Zero(*engines.tuned);
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\r%s pages: round %d of %d",
                 page_size == k1G ? "1G" : "2M", round + 1, rounds);
    for (auto& entry : engines.fixed) {
      // Named anew: clang 14 cannot capture structured bindings.
      const int threads = entry.first;
      NodeWorkers& engine = *entry.second;
      Time(&f.engine[threads], [&] { rig.Zero(engine); });
      Time(&f.raw[threads], [&] { rig.RawZero(*stores, threads); });
      Time(&f.again[threads], [&] {
        rig.Empty();
        rig.Populate(engine);
      });
    }
    Time(&f.tuned, [&] { rig.Zero(*engines.tuned); });
  }
  std::fprintf(stderr, "\n");
  f.tuned_threads = engines.tuned->zeroing().threads;
  return f;
}

// The median of the ratios of each round: what disturbs the machine for longer than
// a round disturbs both.
double Ratio(const Values& slow, const Values& fast) {
  Values ratios;
  for (size_t i = 0; i < slow.size(); ++i) ratios.push_back(slow[i] / fast[i]);
  return Median(ratios);
}

std::string Rates(const Figures& f) {
  std::string out;
  for (const RoutineRate& rate : f.rates) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", rate.routine->name, " ",
                    absl::StrFormat("%.1f", rate.zero_rate / 1e9));
  }
  return out;
}

void Tell(const std::string& key, const std::string& name, const Figures& f,
          double once, double equal, Report* report) {
  report->Note(absl::StrCat(name, ": GB/s of one thread on 64 MiB: ", Rates(f),
                            "; its own count of threads is ",
                            f.tuned_threads));
  report->Threads(key + "_engine", name + ": cleared in place", 1, f.engine);
  report->Threads(key + "_raw", name + ": the raw store loop", 1, f.raw);
  report->Threads(key + "_again", name + ": given back and populated", 1,
                  f.again);
  report->Series(key + "_tuned", name + ": with its own count of threads", "us",
                 f.tuned);
  const int most = f.engine.rbegin()->first;
  int best = f.engine.begin()->first;
  for (const auto& [threads, values] : f.engine) {
    if (Median(values) < Median(f.engine.at(best))) best = threads;
    report->Aim(absl::StrCat(name, ", ", threads, " threads: speed as a part of "
                             "the raw loop's"),
                Ratio(f.raw.at(threads), values), Goal::kAtLeast, 0.95);
  }
  report->Aim(name + ": times faster than populating again with one thread",
              Ratio(f.again.at(1), f.tuned), Goal::kAtLeast, once);
  report->Aim(absl::StrCat(name, ": times faster than populating again, ", most,
                           " threads each"),
              Ratio(f.again.at(most), f.engine.at(most)), Goal::kAtLeast, equal);
  report->Aim(name + ": its own count of threads, as a part of the best",
              Ratio(f.engine.at(best), f.tuned), Goal::kAtLeast, 0.97);
}

void Run(int rounds, bool json) {
  Report report(
      "clear",
      "1 GiB zeroed in place by the daemon's engine, against a bare loop of the "
      "same stores and against\ngiving the pages back and populating new ones, "
      "in turns");
  Tell("2m", "2M", Measure(k2M, rounds), 4, 2.5, &report);
  Tell("1g", "1G", Measure(k1G, rounds), 3, 2, &report);
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// clear [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 61);
  hugepool::bench::Run(options.rounds, options.json);
}
