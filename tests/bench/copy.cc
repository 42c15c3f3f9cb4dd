// Copies of 2M pages: into memory that is clean already, into memory that is made
// for them first, and into fresh pages that were never cleared.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "deploy/quickstart/measure.h"
#include "tests/bench/memory_rig.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using Values = std::vector<double>;

constexpr Bytes kSize = MiB(512);

// Faults count: what a copy leaves behind is of no use if it is wrong.
void MustEqual(const MemoryRig& one, const MemoryRig& other) {
  if (memcmp(one.data(), other.data(), kSize.value()) == 0) return;
  std::fprintf(stderr, "the copy differs from its source\n");
  std::exit(1);
}

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

void Run(int rounds, bool json) {
  MemoryRig source(k2M, kSize);
  MemoryRig copy(k2M, kSize);
  Engines engines(source, nullptr);
  NodeWorkers& workers = *engines.tuned;
  memset(source.data(), 0xA5, kSize.value());
  const std::vector<CopyPart> parts = {
      {&source.file(), Bytes(0), Bytes(0), kSize}};
  Values clean, made, filled, ratio;
  // The engine finds its numbers of threads in the first ones.
  constexpr int kWarm = 12;
  for (int round = -kWarm; round < rounds; ++round) {
    std::fprintf(stderr, "\rround %d of %d", round + 1, rounds);
    measure::Stopwatch watch;
    Must(workers.Copy(copy.file(), parts, Bytes(0), Pace::kUrgent));
    const double into_clean = watch.Micros();
    copy.Empty();
    watch = measure::Stopwatch();
    copy.Populate(workers);
    Must(workers.Copy(copy.file(), parts, Bytes(0), Pace::kUrgent));
    const double into_made = watch.Micros();
    copy.Empty();
    watch = measure::Stopwatch();
    Must(workers.Fill(copy.file(), parts, Bytes(0), Pace::kUrgent));
    const double into_fresh = watch.Micros();
    if (round < 0) {
      MustEqual(source, copy);
      continue;
    }
    clean.push_back(into_clean);
    made.push_back(into_made);
    filled.push_back(into_fresh);
    ratio.push_back(into_made / into_fresh);
  }
  std::fprintf(stderr, "\n");
  Report report("copy",
                "512 MiB of 2M pages copied by the engine, with the number of "
                "threads that it finds best, in turns");
  report.Series("clean", "into clean memory", "us", clean);
  report.Series("made", "populated first, then copied", "us", made);
  report.Series("filled", "into fresh pages, not cleared first", "us", filled);
  report.Aim("populating and copying against filling, median of the pairs",
             Median(ratio), Goal::kAtLeast, 1);
  report.Note(workers.FillsFaster()
                  ? "the engine fills where a copy has to wait for memory"
                  : "the engine found that filling is slower here, and "
                    "populates first");
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// copy [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 25);
  hugepool::bench::Run(options.rounds, options.json);
}
