// What a reader finds in the caches after a page was zeroed, by the order of the
// pieces and the kind of stores; and after it was copied, by the order.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/clear/piece_order.h"
#include "daemon/clear/store_routines.h"
#include "daemon/sys/cpu_binding.h"
#include "deploy/quickstart/measure.h"
#include "tests/bench/memory_rig.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using Values = std::vector<double>;

constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kPages = 32;
constexpr uint64_t kPiece = 64 << 10;
constexpr uint64_t kHot = 256 << 10;
constexpr uint64_t kPressure = uint64_t{256} << 20;
const std::vector<uint64_t> kWindows = {64 << 10, 128 << 10, 256 << 10,
                                        512 << 10};

enum class Way {
  kFrontStream,
  kLastStream,
  kFrontPlain,
  kLastPlain,
  kEngine,
  kFrontCopy,
  kLastCopy,
};
const std::vector<std::pair<Way, std::string>> kWays = {
    {Way::kFrontStream, "front to back, streaming"},
    {Way::kLastStream, "target last, streaming"},
    {Way::kFrontPlain, "front to back, ordinary"},
    {Way::kLastPlain, "target last, ordinary"},
    {Way::kEngine, "target last, streaming but for the last 256 KiB"},
    {Way::kFrontCopy, "copied front to back"},
    {Way::kLastCopy, "copied, target last"},
};
bool Copies(Way way) {
  return way == Way::kFrontCopy || way == Way::kLastCopy;
}

// The target is the page's beginning.
void Clear(std::byte* page, Way way, const StoreRoutine& stream) {
  const StoreRoutine& plain = PlainStores();
  const bool front = way == Way::kFrontStream || way == Way::kFrontPlain;
  const bool ordinary = way == Way::kFrontPlain || way == Way::kLastPlain;
  const PieceOrder order{Bytes(kPage), Bytes(kPiece), Bytes(0)};
  for (uint64_t i = 0; i < order.count(); ++i) {
    const uint64_t offset = front ? i * kPiece : order.At(i).offset.value();
    const bool hot = way == Way::kEngine && offset < kHot;
    (ordinary || hot ? plain : stream).zero(page + offset, kPiece);
  }
}

// As the engine does it; from the same page of `source`.
void Copy(MemoryRig& rig, MemoryRig& source, uint64_t page, Way way) {
  const PieceOrder order{Bytes(kPage), Bytes(kPiece), Bytes(0)};
  for (uint64_t i = 0; i < order.count(); ++i) {
    const Bytes at(page * kPage + (way == Way::kFrontCopy
                                       ? i * kPiece
                                       : order.At(i).offset.value()));
    const absl::Status copied =
        rig.file().CopyFrom(source.file(), at, at, Bytes(kPiece));
    if (!copied.ok()) {
      std::fprintf(stderr, "%s\n", copied.ToString().c_str());
      std::exit(1);
    }
  }
}

// A byte of each line.
uint64_t Read(const std::byte* from, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < bytes; i += 64) {
    sum += static_cast<uint64_t>(from[i]);
  }
  return sum;
}

// Streams through more than the last cache holds, on every CPU but the first.
class Pressure {
 public:
  explicit Pressure(const std::vector<int>& cpus) {
    for (size_t i = 1; i < cpus.size(); ++i) {
      threads_.emplace_back([this, cpu = cpus[i]] {
        sys::BindThisThread({cpu});
        std::vector<uint64_t> memory(kPressure / 8, 1);
        while (!stop_.load(std::memory_order_relaxed)) {
          for (uint64_t& word : memory) ++word;
        }
      });
    }
  }
  ~Pressure() {
    stop_.store(true, std::memory_order_relaxed);
    for (std::thread& t : threads_) t.join();
  }
  bool any() const { return !threads_.empty(); }

 private:
  // relaxed: a flag to stop, which orders nothing.
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

struct Figures {
  std::map<Way, Values> clear;                      // or copy, a whole page
  std::map<Way, std::map<uint64_t, Values>> read;  // of a window
};

void Measure(MemoryRig& rig, MemoryRig& source, const StoreRoutine& stream,
             int rounds, Figures* f) {
  volatile uint64_t sink = 0;
  uint64_t page = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const uint64_t window : kWindows) {
      for (const auto& [way, name] : kWays) {
        const uint64_t which = page++ % kPages;
        std::byte* const at = rig.data() + which * kPage;
        const measure::Stopwatch clear;
        if (Copies(way)) {
          Copy(rig, source, which, way);
        } else {
          Clear(at, way, stream);
        }
        f->clear[way].push_back(clear.Micros());
        const measure::Stopwatch read;
        sink = sink + Read(at, window);
        f->read[way][window].push_back(read.Micros());
      }
    }
  }
}

void Tell(const std::string& key, const std::string& when, const Figures& f,
          Report* report) {
  for (const auto& [way, name] : kWays) {
    const std::string way_key = absl::StrCat(key, "_", static_cast<int>(way));
    report->Series(way_key + "_clear",
                   absl::StrCat(when, ": ", name, ": 2 MiB ",
                                Copies(way) ? "copied" : "zeroed"),
                   "us",
                   f.clear.at(way));
    for (const auto& [window, values] : f.read.at(way)) {
      report->Series(absl::StrCat(way_key, "_read_", window >> 10, "k"),
                     absl::StrCat(when, ": ", name, ": its first ",
                                  window >> 10, " KiB read"),
                     "us", values);
    }
  }
}

double Faster(const Figures& f, Way slow, Way fast, uint64_t window) {
  return Median(f.read.at(slow).at(window)) /
         Median(f.read.at(fast).at(window));
}

void Run(int rounds, bool json) {
  MemoryRig rig(k2M, Bytes(kPages * kPage));
  MemoryRig source(k2M, Bytes(kPages * kPage));
  const auto rates = MeasureStores(rig.data(), MiB(64), *Clock::Real());
  const auto stream = std::find_if(
      rates.begin(), rates.end(),
      [](const RoutineRate& rate) { return rate.routine->streams; });
  const StoreRoutine& stores =
      stream == rates.end() ? PlainStores() : *stream->routine;
  sys::BindThisThread({rig.cpus().front()});
  Figures idle;
  Figures pressed;
  bool any = false;
  Measure(rig, source, stores, rounds, &idle);
  {
    const Pressure pressure(rig.cpus());
    any = pressure.any();
    if (any) Measure(rig, source, stores, rounds, &pressed);
  }
  Report report("target-last",
                "2 MiB pages zeroed in five ways and copied in two, then the "
                "first part of each read by the same CPU,\nin turns; under "
                "pressure the other CPUs "
                "stream through 256 MiB each");
  Tell("idle", "idle", idle, &report);
  if (any) {
    Tell("pressed", "under pressure", pressed, &report);
    report.Aim("under pressure, ordinary stores: times faster to read 256 KiB "
               "by the order alone",
               Faster(pressed, Way::kFrontPlain, Way::kLastPlain, kHot),
               Goal::kAtLeast, 1.15);
    report.Aim("under pressure, copied: times faster to read 256 KiB by the "
               "order alone",
               Faster(pressed, Way::kFrontCopy, Way::kLastCopy, kHot),
               Goal::kAtLeast, 1.15);
    report.Figure("engine_pressed",
                  "under pressure: times faster to read 256 KiB, the engine's "
                  "way against streaming front to back",
                  "x", Faster(pressed, Way::kFrontStream, Way::kEngine, kHot));
  } else {
    report.Note("one CPU: no pressure from others");
  }
  report.Aim("idle: the whole page, the engine's way, as a part of streaming "
             "front to back",
             Median(idle.clear.at(Way::kEngine)) /
                 Median(idle.clear.at(Way::kFrontStream)),
             Goal::kAtMost, 1.0);
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// target-last [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 500);
  hugepool::bench::Run(options.rounds, options.json);
}
