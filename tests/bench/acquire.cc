// How long until 1 GiB of huge pages is there and every page was touched:
// leased, against what the kernel takes.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/hugepool.hpp"
#include "deploy/quickstart/measure.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/report.h"

namespace hugepool::bench {
namespace {

using measure::KernelWay;
using measure::kGiB;
using measure::kMiB;
using Values = std::vector<double>;

constexpr std::size_t k2MiB = 2 * kMiB;
constexpr unsigned char kPattern = 0xA5;

std::string Config(bool share) {
  return std::string(
             "backend: hugetlb\n"
             "zeroing: {bandwidth: none}\n"
             "pools:\n"
             "  - {page_size: 1GiB, target: 1GiB}\n"
             "  - {page_size: 2MiB, target: 1GiB, shapes: [1GiB]}\n"
             "share_page_tables: ") +
         (share ? "auto\n" : "off\n");
}

struct Figures {
  Values hit, kernel, two_threads;     // ready, microseconds
  Values hit_written, kernel_written;  // and every byte written
  Values miss;                         // ready, the pool being empty
  Values hit_cpu, refill_cpu, kernel_cpu, miss_cpu;  // of all processes
};

double TotalCpu(const BenchDaemon& daemon) {
  return daemon.CpuMicros() + OwnCpuMicros();
}

// The kernel's ways, while the lease is held and the daemon at rest.
void KernelRound(std::size_t page_size, bool all, Figures* f) {
  const double cpu = OwnCpuMicros();
  {
    const measure::Stopwatch watch;
    const measure::KernelMemory memory(kGiB, page_size, KernelWay::kPopulate);
    if (memory.data() == nullptr) {
      std::perror("mmap(MAP_HUGETLB | MAP_POPULATE)");
      std::exit(1);
    }
    measure::TouchEveryPage(memory.data(), kGiB, page_size);
    f->kernel.push_back(watch.Micros());
    f->kernel_cpu.push_back(OwnCpuMicros() - cpu);
    if (all) {
      std::memset(memory.data(), kPattern, kGiB);
      f->kernel_written.push_back(watch.Micros());
    }
  }
  // One page cannot be shared between two threads.
  if (!all || page_size == kGiB) return;
  const double two =
      measure::KernelReadyMicros(kGiB, page_size, KernelWay::kTwoThreads);
  if (two > 0) f->two_threads.push_back(two);
}

// Gives the lease back and asks again at once: the pool is empty.
void MissRound(BenchDaemon& daemon, Client& client, const Request& request,
               std::optional<Lease> lease, Figures* f) {
  const double cpu = TotalCpu(daemon);
  const measure::Stopwatch watch;
  lease.reset();
  const Lease again = MustAcquire(client, request);
  const MemorySegment memory = again.segment(0);
  measure::TouchEveryPage(memory.data, memory.size, memory.page_size);
  f->miss.push_back(watch.Micros());
  f->miss_cpu.push_back(TotalCpu(daemon) - cpu);
}

void Round(BenchDaemon& daemon, Client& client, std::size_t page_size, bool all,
           Figures* f) {
  const Request request =
      Request().Segment(kGiB, {}, {page_size}).Wait(std::chrono::seconds(60));
  daemon.WaitClean(page_size);
  double cpu = TotalCpu(daemon);
  const measure::Stopwatch watch;
  std::optional<Lease> lease = MustAcquire(client, request);
  const MemorySegment memory = lease->segment(0);
  measure::TouchEveryPage(memory.data, memory.size, memory.page_size);
  f->hit.push_back(watch.Micros());
  f->hit_cpu.push_back(TotalCpu(daemon) - cpu);
  if (all) {
    std::memset(memory.data, kPattern, memory.size);
    f->hit_written.push_back(watch.Micros());
  }
  KernelRound(page_size, all, f);
  if (all) MissRound(daemon, client, request, std::move(lease), f);
  cpu = daemon.CpuMicros();
  lease.reset();
  daemon.WaitClean(page_size);
  f->refill_cpu.push_back(daemon.CpuMicros() - cpu);
}

void Tell(const std::string& key, const std::string& name, const Figures& f,
          Report* report) {
  const auto series = [&](const char* what_key, const std::string& what,
                          const Values& values) {
    if (values.empty()) return;
    report->Series(key + "_" + what_key, name + ": " + what, "us", values);
  };
  series("hit", "leased, ready", f.hit);
  series("kernel", "mmap(MAP_HUGETLB|MAP_POPULATE), ready", f.kernel);
  series("two_threads", "MADV_POPULATE_WRITE by two threads, ready",
         f.two_threads);
  series("miss", "leased from an empty pool, ready", f.miss);
  series("hit_written", "leased, every byte written", f.hit_written);
  series("kernel_written", "MAP_POPULATE, every byte written",
         f.kernel_written);
  series("hit_cpu", "CPU of all until ready, leased", f.hit_cpu);
  series("refill_cpu", "CPU of the daemon to be clean again", f.refill_cpu);
  series("miss_cpu", "CPU of all until ready, empty pool", f.miss_cpu);
  series("kernel_cpu", "CPU until ready, MAP_POPULATE", f.kernel_cpu);
}

double Ratio(const Values& slow, const Values& fast) {
  return measure::Median(slow) / measure::Median(fast);
}

void Run(int rounds, bool json) {
  // As much for the comparison as for the pool.
  NeedFreePages(k2MiB, 2 * kGiB);
  NeedFreePages(kGiB, 2 * kGiB);
  Figures of_1g, of_2m, unshared;
  {
    BenchDaemon daemon(Config(true));
    Client client = daemon.Connect();
    for (int i = 0; i < rounds; ++i) {
      std::fprintf(stderr, "\rround %d of %d", i + 1, rounds);
      Round(daemon, client, kGiB, true, &of_1g);
      Round(daemon, client, k2MiB, true, &of_2m);
    }
  }
  {
    BenchDaemon daemon(Config(false));
    Client client = daemon.Connect();
    for (int i = 0; i < rounds; ++i) {
      std::fprintf(stderr, "\rwithout sharing: round %d of %d", i + 1, rounds);
      Round(daemon, client, k2MiB, false, &unshared);
    }
  }
  std::fprintf(stderr, "\n");
  Report report(
      "acquire",
      "1 GiB through the client library until every page was touched, against "
      "the kernel's ways,\nin turns on one machine while the daemon is at "
      "rest");
  Tell("1g", "1G", of_1g, &report);
  Tell("2m", "2M", of_2m, &report);
  Tell("2m_unshared", "2M, share_page_tables: off", unshared, &report);
  const char* const than = ": times faster than mmap(MAP_HUGETLB|MAP_POPULATE)";
  report.Aim(std::string("1G") + than, Ratio(of_1g.kernel, of_1g.hit),
             Goal::kAtLeast, 150);
  report.Aim(std::string("2M") + than, Ratio(of_2m.kernel, of_2m.hit),
             Goal::kAtLeast, 200);
  report.Aim(std::string("2M, share_page_tables: off") + than,
             Ratio(unshared.kernel, unshared.hit), Goal::kAtLeast, 80);
  // N18: a pool that was emptied and is asked again at once.
  report.Aim("1G: asked again at once, as a part of the kernel's own time",
             Ratio(of_1g.miss, of_1g.kernel), Goal::kAtMost, 1.15);
  if (!of_2m.two_threads.empty()) {
    report.Aim("2M: asked again at once, as a part of the kernel's own time "
               "with two threads",
               Ratio(of_2m.miss, of_2m.two_threads), Goal::kAtMost, 1.15);
  }
  report.Figure("2m_two_threads_ratio", "2M: times faster than two threads",
                "x", Ratio(of_2m.two_threads, of_2m.hit));
  report.Figure("1g_written_ratio", "1G: times faster, every byte written", "x",
                Ratio(of_1g.kernel_written, of_1g.hit_written));
  report.Figure("2m_written_ratio", "2M: times faster, every byte written", "x",
                Ratio(of_2m.kernel_written, of_2m.hit_written));
  report.Print(std::cout, json);
}

}  // namespace
}  // namespace hugepool::bench

// acquire [--json] [--rounds=N]
int main(int argc, char** argv) {
  const auto options = hugepool::bench::ParseOptions(argc, argv, 31);
  hugepool::bench::Run(options.rounds, options.json);
}
