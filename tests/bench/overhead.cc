// What Acquire costs beside what it cannot do without: a call of gRPC and a
// descriptor that is passed.
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "client/hugepool.hpp"
#include "deploy/quickstart/measure.h"
#include "tests/bench/bare.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/report.h"
#include "tests/harness/child_process.h"

namespace hugepool::bench {
namespace {

constexpr std::size_t k2MiB = 2 * measure::kMiB;
constexpr int kExtents = 512;
// Three leases a step; all are given back between two batches, while nothing is
// measured.
constexpr int kSteps = kExtents / 3;

std::string Self() {
  char path[PATH_MAX] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) std::abort();
  return path;
}

std::unique_ptr<testing::ChildProcess> Serve(const std::string& what,
                                             const std::string& path) {
  auto child = testing::ChildProcess::Start({Self(), what, path}, {});
  if (!child.ok() || (*child)->ReadLine(absl::Seconds(20)) != "ready") {
    std::fprintf(stderr, "%s did not start\n", what.c_str());
    std::exit(1);
  }
  return *std::move(child);
}

struct Figures {
  std::vector<double> acquire, unmapped, over_grpc, refused, echo, fds;
};

template <typename F>
void Time(std::vector<double>* values, F&& work) {
  const measure::Stopwatch watch;
  work();
  values->push_back(watch.Micros());
}

// Everything in turns, one call each.
void Batch(Client& client, Client& over_grpc, EchoClient& echo, FdsClient& fds, int steps,
           Figures* f) {
  // As long as the ids that Acquire's messages carry.
  const std::string text(64, 'x');
  const Request mapped = Request().Segment(k2MiB, {}, {k2MiB});
  const Request unmapped =
      Request().Segment(k2MiB, {}, {k2MiB}).Flags(HP_REQUEST_NO_MAP);
  // No pool has such pages: all of the call, nothing of the grant.
  const Request refused = Request().Segment(k2MiB, {}, {k2MiB * 4});
  std::vector<Lease> leases;
  leases.reserve(3 * kSteps);
  for (int i = 0; i < steps; ++i) {
    Time(&f->acquire, [&] { leases.push_back(MustAcquire(client, mapped)); });
    Time(&f->echo, [&] { echo.Call(text); });
    Time(&f->unmapped,
         [&] { leases.push_back(MustAcquire(client, unmapped)); });
    Time(&f->over_grpc,
         [&] { leases.push_back(MustAcquire(over_grpc, mapped)); });
    Time(&f->refused, [&] {
      if (client.Acquire(refused)) std::abort();
    });
    Time(&f->fds, [&] { fds.RoundTrip(); });
  }
}

void Tell(const Figures& f, bool json) {
  Report report("overhead",
                "Acquire of 2 MiB through the client library, against a bare "
                "unary echo of gRPC and a bare\npassing of a descriptor over "
                "the same kinds of sockets, servers in processes of their own,"
                "\nin turns");
  report.Series("acquire", "Acquire, mapped", "us", f.acquire);
  report.Series("acquire_unmapped", "Acquire, descriptor only", "us",
                f.unmapped);
  report.Series("acquire_over_grpc", "Acquire over gRPC, mapped", "us",
                f.over_grpc);
  report.Series("refused", "Acquire, refused at once", "us", f.refused);
  report.Series("echo", "bare gRPC unary echo", "us", f.echo);
  report.Series("fds", "bare SCM_RIGHTS round trip", "us", f.fds);
  const auto p99 = [](const std::vector<double>& v) {
    return measure::Quantile(v, 0.99);
  };
  report.Figure("acquire_p99", "Acquire, mapped: p99", "us", p99(f.acquire));
  report.Figure("acquire_unmapped_p99", "Acquire, descriptor only: p99", "us",
                p99(f.unmapped));
  report.Figure("echo_p99", "echo: p99", "us", p99(f.echo));
  report.Figure("fds_p99", "SCM_RIGHTS: p99", "us", p99(f.fds));
  report.Figure("p99_ratio", "Acquire against echo at p99", "x",
                p99(f.acquire) / p99(f.echo));
  report.Aim("Acquire, mapped, against echo at p50",
             measure::Median(f.acquire) / measure::Median(f.echo),
             Goal::kAtMost, 1.5);
  report.Figure("over_grpc_ratio", "Acquire over gRPC, against echo", "x",
                measure::Median(f.over_grpc) / measure::Median(f.echo));
  report.Figure("unmapped_ratio", "Acquire, descriptor only, against echo", "x",
                measure::Median(f.unmapped) / measure::Median(f.echo));
  report.Print(std::cout, json);
}

void Run(int batches, bool json) {
  NeedFreePages(k2MiB, kExtents * k2MiB);
  BenchDaemon daemon(
      "backend: hugetlb\n"
      "zeroing: {bandwidth: none}\n"
      "pools: [{page_size: 2MiB, target: 1GiB, shapes: [2MiB]}]\n");
  const auto echo_server = Serve("--serve-echo", daemon.dir() + "/echo");
  const auto fds_server = Serve("--serve-fds", daemon.dir() + "/fds");
  EchoClient echo(daemon.dir() + "/echo");
  FdsClient fds(daemon.dir() + "/fds");
  Client client = daemon.Connect();
  Client over_grpc = daemon.Connect(HP_CONNECT_OVER_GRPC);
  Figures warm_up, figures;
  daemon.WaitClean(k2MiB);
  Batch(client, over_grpc, echo, fds, 32, &warm_up);
  for (int i = 0; i < batches; ++i) {
    std::fprintf(stderr, "\rbatch %d of %d", i + 1, batches);
    daemon.WaitClean(k2MiB);
    Batch(client, over_grpc, echo, fds, kSteps, &figures);
  }
  std::fprintf(stderr, "\n");
  Tell(figures, json);
}

}  // namespace
}  // namespace hugepool::bench

// overhead [--json] [--batches=N]
int main(int argc, char** argv) {
  bool json = false;
  int batches = 12;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--serve-echo") hugepool::bench::ServeEcho(argv[i + 1]);
    if (arg == "--serve-fds") hugepool::bench::ServeFds(argv[i + 1]);
    if (arg == "--json") json = true;
    if (arg.rfind("--batches=", 0) == 0) {
      batches = std::max(1, std::atoi(arg.c_str() + 10));
    }
  }
  hugepool::bench::Run(batches, json);
}
