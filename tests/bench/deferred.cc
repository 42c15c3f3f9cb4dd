// Many threads release ranges of the same extents: what the look before the
// queue's lock is worth.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/reclaim/deferred_queue.h"
#include "deploy/quickstart/measure.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using Values = std::vector<double>;

// 1 GiB of 2M pages each; a call releases one page.
constexpr uint64_t kPages = 512;
constexpr int kExtents = 10000;
constexpr double kCalls = kPages * kExtents;
const std::vector<int> kThreads = {1, 2, 4, 8, 16};

double ThreadCpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

struct Once {
  double cpu_seconds = 0;
  double wall_seconds = 0;
  DeferredQueue::Stats stats;
};

// Every thread goes through all extents, the same way round, and releases its
// part of each page by page: all of them are at one extent most of the time.
Once Measure(int threads, bool look, bool scanner) {
  DeferredQueue queue({.look_first = look});
  std::vector<DeferredRef> extents;
  for (uint64_t i = 1; i <= kExtents; ++i) {
    extents.push_back(
        DeferredExtent::Make(&queue, nullptr, ExtentId(i), LeaseId(1),
                             PageCount(kPages)));
  }
  const absl::Time now = absl::Now();
  std::vector<double> cpu(static_cast<size_t>(threads), 0);
  // relaxed: a count; the joins order what is read after them.
  std::atomic<int> running{threads};
  std::latch start(threads + 1);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const uint64_t part = kPages / static_cast<uint64_t>(threads);
      const uint64_t first = part * static_cast<uint64_t>(t);
      start.arrive_and_wait();
      const double before = ThreadCpuSeconds();
      for (const DeferredRef& extent : extents) {
        for (uint64_t p = first; p < first + part; ++p) {
          extent->Release(PageCount(p), PageCount(1), now);
        }
      }
      cpu[static_cast<size_t>(t)] = ThreadCpuSeconds() - before;
      running.fetch_sub(1, std::memory_order_relaxed);
    });
  }
  if (scanner) {
    all.emplace_back([&] {
      while (running.load(std::memory_order_relaxed) > 0) {
        for (auto& item : queue.TakeBatch(DeferredQueue::kLargestBatch)) {
          item.extent->released().TakePending(PageCount(kPages));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  start.arrive_and_wait();
  const measure::Stopwatch watch;
  for (std::thread& t : all) t.join();
  Once once;
  once.wall_seconds = watch.Micros() / 1e6;
  for (const double seconds : cpu) once.cpu_seconds += seconds;
  once.stats = queue.stats();
  return once;
}

struct Way {
  Values rate, locks, contended, queued;  // a round each

  void Note(const Once& once) {
    rate.push_back(kCalls / once.cpu_seconds / 1e6);
    locks.push_back(static_cast<double>(once.stats.add_locks));
    contended.push_back(static_cast<double>(once.stats.contended));
    queued.push_back(static_cast<double>(once.stats.queued));
  }
};

struct Figures {
  Way look, no_look;
  Values ratio;  // of each pair
};

Figures Compare(int threads, int rounds, bool scanner) {
  Figures f;
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\r%2d threads%s: round %d of %d ", threads,
                 scanner ? " and a scanner" : "", round + 1, rounds);
    // Who comes first changes.
    for (const bool look : {round % 2 == 0, round % 2 != 0}) {
      (look ? f.look : f.no_look).Note(Measure(threads, look, scanner));
    }
    f.ratio.push_back(f.look.rate.back() / f.no_look.rate.back());
  }
  std::fprintf(stderr, "\n");
  return f;
}

void Tell(const std::string& key, const std::string& what, const Way& way,
          Report* report) {
  report->Series(key + "_rate", what + ": calls per CPU second", "M/s",
                 way.rate);
  report->Series(key + "_locks", what + ": lock takes of the callers", "",
                 way.locks);
  report->Series(key + "_contended", what + ": the lock was somebody else's",
                 "", way.contended);
}

void Tell(const std::string& key, const std::string& what, const Figures& f,
          Report* report) {
  Tell(key + "_look", what + ", look first", f.look, report);
  Tell(key + "_lock", what + ", without the look", f.no_look, report);
  report->Series(key + "_ratio", what + ": ratio of each pair", "x", f.ratio);
}

void Run(int rounds, bool json) {
  Report report(
      "deferred",
      absl::StrCat(
          kExtents, " extents of ", kPages, " pages, released page by page (",
          static_cast<int>(kCalls),
          " calls) by threads that go through them together, by\n"
          "DeferredExtent::Release; against the same code with only the look "
          "before the lock removed, in turns"));
  std::map<int, Figures> figures;
  for (const int threads : kThreads) {
    figures[threads] = Compare(threads, rounds, false);
    Tell(absl::StrCat("t", threads), absl::StrCat(threads, " threads"),
         figures[threads], &report);
  }
  const Figures scanned = Compare(16, rounds, true);
  Tell("t16_scanner", "16 threads and a scanner", scanned, &report);
  const Figures& most = figures[16];
  report.Aim("16 threads: lock takes an extent (the most of all rounds)",
             *std::max_element(most.look.locks.begin(), most.look.locks.end()) /
                 kExtents,
             Goal::kAtMost, 1.05);
  report.Aim("16 threads: times the calls per CPU second without the look",
             Median(most.ratio), Goal::kAtLeast, 3);
  report.Note(
      "no scanner runs, but for the last rows: there one comes by every "
      "millisecond and takes all that is queued,\nso that extents are queued "
      "several times");
  report.Note(
      absl::StrCat("with the scanner an extent was queued ",
                   Median(scanned.look.queued) / kExtents,
                   " times (median), and the lock "
                   "taken ",
                   Median(scanned.look.locks) / Median(scanned.look.queued),
                   " times for each"));
  report.Note(absl::StrCat(std::thread::hardware_concurrency(),
                           " CPUs: more threads than that take turns"));
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// deferred [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 31);
  hugepool::bench::Run(options.rounds, options.json);
}
