// What others on the machine feel of zeroing in the background.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/sys/cpu_binding.h"
#include "daemon/sys/sched_class.h"
#include "deploy/quickstart/measure.h"
#include "tests/bench/memory_rig.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::Median;
using Values = std::vector<double>;

constexpr double kSeconds = 0.6;  // of each measurement
constexpr Bytes kDefaultCap = GiB(4);

// What is zeroed meanwhile: nothing, in place (reuse: in-place), or by giving
// back and populating (reuse: retire).
enum Mode : int { kNone, kInPlace, kPopulate, kEnd };
constexpr Mode kModes[] = {kNone, kInPlace, kPopulate};
const char* const kModeNames[] = {"nothing", "in place", "populating"};

// The daemon's engine at its defaults, in a process and a session of its own as
// a service has: the kernel weighs sessions against each other.
class Zeroer {
 public:
  Zeroer() {
    shared_ = static_cast<Shared*>(mmap(nullptr, sizeof(Shared),
                                        PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared_ == MAP_FAILED) std::exit(1);
    child_ = fork();
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    Run();
    std::_Exit(0);
  }
  ~Zeroer() {
    Set(kEnd);
    waitpid(child_, nullptr, 0);
  }
  Zeroer(const Zeroer&) = delete;
  Zeroer& operator=(const Zeroer&) = delete;

  // Returns when it is what is being done.
  void Set(Mode mode) {
    shared_->wanted.store(mode);
    while (shared_->mode.load() != mode &&
           waitpid(child_, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  uint64_t bytes() const { return shared_->bytes.load(); }

 private:
  // seq_cst: a few accesses a second, which is no place to save.
  struct Shared {
    std::atomic<int> wanted, mode;
    std::atomic<uint64_t> bytes;
  };

  void Run() {
    MemoryRig rig(k2M, MiB(128));
    sys::LinuxSchedClass sched;
    NodeWorkers::Options options;
    options.cpus = rig.cpus();
    options.threads = static_cast<int>(std::min<size_t>(4, rig.cpus().size()));
    options.tune = true;
    options.bandwidth = kDefaultCap;
    if (sys::CanLeaveIdleClass(sched).ok()) options.sched = &sched;
    NodeWorkers workers(options);
    while (true) {
      const int mode = shared_->wanted.load();
      shared_->mode.store(mode);
      if (mode == kEnd) return;
      if (mode == kNone) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      absl::Status status;
      if (mode == kInPlace) {
        status =
            workers.Zero(rig.file(), {Bytes(0), rig.size()}, Pace::kBackground);
      } else {
        rig.Empty();
        status = workers.Populate(rig.file(), {Bytes(0), rig.size()},
                                  Pace::kBackground);
      }
      if (!status.ok()) std::_Exit(1);
      shared_->bytes += rig.size().value();
    }
  }

  Shared* shared_ = nullptr;
  pid_t child_ = -1;
};

uint64_t LastLevelCache() {
  uint64_t most = 1024 * 1024;
  for (int i = 0; i < 8; ++i) {
    uint64_t kib = 0;
    std::ifstream(
        absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", i, "/size")) >>
        kib;
    most = std::max(most, kib * 1024);
  }
  return most;
}

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// Late by how much after a sleep of 1 ms; microseconds.
void Probe(Values* late) {
  for (const double end = Now() + kSeconds; Now() < end;) {
    const double until = Now() + 1e-3;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    late->push_back((Now() - until) * 1e6);
  }
}

using Memory = std::vector<uint64_t>;

// Each cache line leads to another one, all of them in one round.
void MakeChase(Memory* memory, uint32_t seed) {
  std::vector<uint32_t> order(memory->size() / 8);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin() + 1, order.end(), std::mt19937(seed));
  for (size_t i = 0; i < order.size(); ++i) {
    (*memory)[order[i] * 8ull] = order[(i + 1) % order.size()] * 8ull;
  }
}

// Nanoseconds a step.
double Chase(const Memory& memory) {
  uint64_t at = 0;
  uint64_t steps = 0;
  const double begin = Now();
  for (const double end = begin + kSeconds; Now() < end; steps += 10000) {
    for (int i = 0; i < 10000; ++i) at = memory[at];
  }
  // So that it is not left out.
  if (at == ~uint64_t{0}) std::abort();
  return (Now() - begin) * 1e9 / static_cast<double>(steps);
}

// Nanoseconds a KiB.
double Stream(const Memory& memory) {
  uint64_t sum = 0;
  uint64_t kib = 0;
  constexpr size_t kWords = 1 << 17;  // 1 MiB between two looks at the clock
  const double begin = Now();
  size_t at = 0;
  for (const double end = begin + kSeconds; Now() < end; kib += 1024) {
    for (size_t i = 0; i < kWords; ++i) sum += memory[at + i];
    at = at + 2 * kWords > memory.size() ? 0 : at + kWords;
  }
  if (sum == 1) std::abort();
  return (Now() - begin) * 1e9 / static_cast<double>(kib);
}

// On every CPU at once.
void OnEvery(const std::vector<int>& cpus,
             const std::function<void(size_t)>& work) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < cpus.size(); ++i) {
    threads.emplace_back([&, i] {
      sys::BindThisThread({cpus[i]});
      work(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

double Mean(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

double P99(Values values) {
  const size_t at = values.size() * 99 / 100;
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(at),
                   values.end());
  return values[at];
}

struct User {
  const char* key;
  const char* what;
  const char* unit;
  std::function<double()> measure;
};

void Run(int rounds, bool json) {
  // Before there are threads and memory that it would inherit.
  Zeroer zeroer;
  std::vector<int> cpus(std::thread::hardware_concurrency());
  std::iota(cpus.begin(), cpus.end(), 0);
  const uint64_t bytes = 4 * LastLevelCache();
  std::vector<Memory> memory(cpus.size(), Memory(bytes / 8));
  for (size_t i = 0; i < memory.size(); ++i) {
    madvise(memory[i].data(), bytes, MADV_HUGEPAGE);
    MakeChase(&memory[i], static_cast<uint32_t>(i));
  }
  const auto mean = [&](double (*work)(const Memory&)) {
    Values all(cpus.size());
    OnEvery(cpus, [&](size_t i) { all[i] = work(memory[i]); });
    return Mean(all);
  };
  const std::vector<User> users = {
      {"wake", "p99 of a sleep of 1 ms: late by", "us",
       [&] {
         std::vector<Values> late(cpus.size());
         OnEvery(cpus, [&](size_t i) { Probe(&late[i]); });
         Values all;
         for (const Values& v : late) all.insert(all.end(), v.begin(), v.end());
         return P99(all);
       }},
      {"chase", "pointer chase, a step", "ns", [&] { return mean(Chase); }},
      {"stream", "reading a stream, a KiB", "ns", [&] { return mean(Stream); }},
  };
  std::map<std::pair<std::string, int>, Values> took, rate;
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\rround %d of %d", round + 1, rounds);
    for (const User& user : users) {
      for (const Mode mode : kModes) {
        zeroer.Set(mode);
        const uint64_t before = zeroer.bytes();
        const double begin = Now();
        took[{user.key, mode}].push_back(user.measure());
        rate[{user.key, mode}].push_back(
            static_cast<double>(zeroer.bytes() - before) / (Now() - begin) /
            1e9);
      }
    }
  }
  zeroer.Set(kNone);
  std::fprintf(stderr, "\n");
  Report report(
      "manners",
      absl::StrCat("One user on every CPU at a time, beside the engine that "
                   "zeroes in the background at its\ndefaults (4 GiB/s, idle "
                   "class) from a session of its own, against the user alone, "
                   "in turns.\nChase and stream: ",
                   bytes >> 20, " MiB a CPU, 4 times the last-level cache"));
  for (const User& user : users) {
    for (const Mode mode : kModes) {
      report.Series(absl::StrCat(user.key, "_", static_cast<int>(mode)),
                    absl::StrCat(user.what, ", beside ", kModeNames[mode]),
                    user.unit, took[{user.key, mode}]);
      if (mode == kNone) continue;
      report.Series(absl::StrCat(user.key, "_zeroed_", static_cast<int>(mode)),
                    absl::StrCat("  zeroed meanwhile, ", kModeNames[mode]),
                    "GB/s", rate[{user.key, mode}]);
    }
  }
  for (const User& user : users) {
    for (const Mode mode : {kInPlace, kPopulate}) {
      Values ratios;
      for (int i = 0; i < rounds; ++i) {
        ratios.push_back(took[{user.key, mode}][static_cast<size_t>(i)] /
                         took[{user.key, kNone}][static_cast<size_t>(i)]);
      }
      report.Aim(absl::StrCat(user.what, ": beside ", kModeNames[mode],
                              ", times that of the user alone"),
                 Median(ratios), Goal::kAtMost, 1.1);
    }
  }
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// manners [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 15);
  hugepool::bench::Run(options.rounds, options.json);
}
