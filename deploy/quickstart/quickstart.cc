// Leases 1 GiB of each page size several times, proves it zero, writes all of
// it, and compares how long it took with what the kernel takes.
//
//   quickstart --socket DIR [--page 1G] [--page 2M] [--rounds N]
//              [--kernel 1G=MICROS]... [--ordinary] [--result FILE]
//              [-- COMMAND...]
//   quickstart --kernel-only --page 1G --page 2M [--rounds N]
//
// A lease counts as ready when Acquire has returned and every page was touched.
// The kernel's way, mmap(MAP_HUGETLB | MAP_POPULATE) and the same touching, is
// taken in turns with it, while the lease is held: the daemon is at rest then.
// It needs as many free pages as the pool has. Where the kernel cannot spare
// them, --kernel-only measures before the daemon takes the pages, and --kernel
// hands in what that printed.
//
// COMMAND is run once, while all sizes are leased. --ordinary: the daemon has
// no huge pages (backend shmem); compared with ordinary memory for which
// transparent huge pages are advised. The last sentence goes to FILE.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/hugepool.hpp"
#include "deploy/quickstart/measure.h"

namespace hugepool {
namespace {

using measure::KernelWay;
using measure::kGiB;

constexpr unsigned char kPattern = 0xA5;
// For the pool to have clean memory again after a release.
constexpr std::chrono::seconds kPatience(60);
constexpr std::chrono::seconds kBeforeWaiting(3);
// Refilling 1 GiB takes about a tenth of a second.
constexpr std::chrono::milliseconds kRest(500);

struct Options {
  std::string socket_dir;
  std::vector<std::size_t> page_sizes;
  int rounds = 7;
  std::map<std::size_t, double> kernel_micros;  // measured before
  bool kernel_only = false;
  bool ordinary = false;
  std::string result_file;
  std::string command;  // for the shell
};

std::size_t ParseSize(std::string_view text) {
  if (text == "1G") return kGiB;
  if (text == "2M") return 2 * measure::kMiB;
  std::fprintf(stderr, "'%.*s' is not a page size: write 1G or 2M\n",
               static_cast<int>(text.size()), text.data());
  std::exit(2);
}

[[noreturn]] void Usage(const char* what) {
  std::fprintf(stderr, "quickstart: %s; see the head of quickstart.cc\n", what);
  std::exit(2);
}

Options Parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) Usage("an option lacks its value");
      return argv[i];
    };
    if (arg == "--socket") {
      o.socket_dir = value();
    } else if (arg == "--page") {
      o.page_sizes.push_back(ParseSize(value()));
    } else if (arg == "--rounds") {
      o.rounds = std::atoi(value().c_str());
    } else if (arg == "--kernel") {
      const std::string text = value();
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos) Usage("--kernel SIZE=MICROS");
      o.kernel_micros[ParseSize(text.substr(0, equals))] =
          std::atof(text.c_str() + equals + 1);
    } else if (arg == "--kernel-only") {
      o.kernel_only = true;
    } else if (arg == "--ordinary") {
      o.ordinary = true;
    } else if (arg == "--result") {
      o.result_file = value();
    } else if (arg == "--") {
      // Through the shell, so each word is quoted.
      while (++i < argc) o.command += "'" + std::string(argv[i]) + "' ";
    } else {
      Usage("unknown option");
    }
  }
  if (o.page_sizes.empty()) Usage("no --page");
  if (o.rounds < 1) Usage("--rounds is at least 1");
  return o;
}

// What was measured for one page size.
struct Series {
  std::size_t page_size;
  std::vector<double> pool;
  std::vector<double> kernel;
  std::optional<double> kernel_before;

  double KernelMicros() const {
    return kernel_before ? *kernel_before : measure::Median(kernel);
  }
};

[[noreturn]] void Fail(const char* what, const Error& error) {
  std::fprintf(stderr, "%s: %s. %s\n", what, error.message(), error.hint());
  std::exit(1);
}

// Leases 1 GiB as soon as the pool has it; only the call that gets it counts.
Lease AcquireHit(Client& client, std::size_t page_size, double* micros) {
  const Request request = Request().Segment(kGiB, {}, {page_size});
  const auto start = std::chrono::steady_clock::now();
  bool waited = false;
  for (;;) {
    const measure::Stopwatch watch;
    auto lease = client.Acquire(request);
    if (lease) {
      const MemorySegment memory = lease->segment(0);
      measure::TouchEveryPage(memory.data, memory.size, memory.page_size);
      *micros = watch.Micros();
      return lease.take();
    }
    // The pool is still making clean what the last round gave back.
    const auto passed = std::chrono::steady_clock::now() - start;
    if (!lease.error().retryable() || passed > kPatience) {
      Fail("Acquire", lease.error());
    }
    if (passed > kBeforeWaiting && !waited) {
      // Or it has the memory in pieces of other sizes: for one who waits they
      // are joined.
      waited = true;
      auto joined = client.Acquire(Request(request).Wait(kPatience));
      if (!joined) Fail("Acquire", joined.error());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void ProveZeroAndWrite(const Lease& lease, const char* name) {
  const MemorySegment memory = lease.segment(0);
  if (memory.size != kGiB) {
    std::fprintf(stderr, "%s: %zu bytes instead of 1 GiB\n", name, memory.size);
    std::exit(1);
  }
  if (!measure::AllBytesAre(memory.data, memory.size, 0)) {
    std::fprintf(stderr, "%s: the leased memory is NOT all zero\n", name);
    std::exit(1);
  }
  std::memset(memory.data, kPattern, memory.size);
  if (!measure::AllBytesAre(memory.data, memory.size, kPattern)) {
    std::fprintf(stderr, "%s: what was written is not there\n", name);
    std::exit(1);
  }
}

void KernelRound(const Options& o, Series* series) {
  if (series->kernel_before) return;
  const double micros = measure::KernelReadyMicros(
      kGiB, series->page_size,
      o.ordinary ? KernelWay::kTransparent : KernelWay::kPopulate);
  if (micros < 0) {
    std::fprintf(stderr, "the kernel has no 1 GiB of %s pages to compare: %s\n",
                 measure::SizeName(series->page_size).c_str(),
                 std::strerror(errno));
    std::exit(1);
  }
  series->kernel.push_back(micros);
}

void PoolRound(const Options& o, Client& client, Series* series) {
  const std::string name = measure::SizeName(series->page_size) + " pages";
  // Not while the daemon refills with both hands what the last round gave back,
  // and on a connection that is in use: after a rest the first call pays for
  // waking CPUs and threads, which is no matter of memory. No pool has such
  // pages, so this one is refused at once.
  std::this_thread::sleep_for(kRest);
  (void)client.Acquire(Request().Segment(1, {}, {series->page_size * 4}));
  double micros = 0;
  Lease lease = AcquireHit(client, series->page_size, &micros);
  series->pool.push_back(micros);
  KernelRound(o, series);
  ProveZeroAndWrite(lease, name.c_str());
  const auto released = lease.Release();
  if (!released) Fail("Release", released.error());
  std::printf("    %s, round %zu of %d: all zero, written, released; %.0f us",
              name.c_str(), series->pool.size(), o.rounds, micros);
  if (!series->kernel.empty()) {
    std::printf(" (kernel: %.0f us)", series->kernel.back());
  }
  std::printf("\n");
}

// With a lease of each size in hand.
void ShowStatus(const Options& o, Client& client) {
  if (o.command.empty()) return;
  std::vector<Lease> leases;
  for (const std::size_t page_size : o.page_sizes) {
    double micros = 0;
    leases.push_back(AcquireHit(client, page_size, &micros));
  }
  std::printf("  while 1 GiB of each is leased:\n");
  const int status = std::system(o.command.c_str());
  if (status != 0) {
    std::fprintf(stderr, "it failed with status %d\n", status);
    std::exit(1);
  }
}

std::string Sentence(const Options& o, const std::vector<Series>& all) {
  std::string out;
  for (const Series& s : all) {
    const double pool = measure::Median(s.pool);
    const double kernel = s.KernelMicros();
    char text[200];
    std::snprintf(
        text, sizeof text,
        "%s1 GiB%s ready in %.0f us instead of %.0f us "
        "(%s times faster)",
        out.empty() ? "" : "; ",
        o.ordinary
            ? ""
            : (" of " + measure::SizeName(s.page_size) + " pages").c_str(),
        pool, kernel, measure::RatioText(kernel / pool).c_str());
    out += text;
  }
  return out;
}

int KernelOnly(const Options& o, std::vector<Series> all) {
  for (Series& series : all) {
    for (int i = 0; i < o.rounds; ++i) KernelRound(o, &series);
    std::printf("%s=%.1f\n", measure::SizeName(series.page_size).c_str(),
                series.KernelMicros());
  }
  return 0;
}

int Run(const Options& o) {
  std::vector<Series> all;
  for (const std::size_t page_size : o.page_sizes) {
    Series series{
        .page_size = page_size, .pool = {}, .kernel = {}, .kernel_before = {}};
    const auto before = o.kernel_micros.find(page_size);
    if (before != o.kernel_micros.end()) series.kernel_before = before->second;
    all.push_back(series);
  }
  if (o.kernel_only) return KernelOnly(o, std::move(all));

  auto client = Client::Connect(o.socket_dir);
  if (!client) Fail("Connect", client.error());
  for (int round = 0; round < o.rounds; ++round) {
    for (Series& series : all) PoolRound(o, *client, &series);
  }
  ShowStatus(o, *client);
  const std::string sentence = Sentence(o, all);
  if (o.result_file.empty()) {
    std::printf("%s\n", sentence.c_str());
    return 0;
  }
  std::FILE* const file = std::fopen(o.result_file.c_str(), "w");
  const bool written = file != nullptr &&
                       std::fprintf(file, "%s\n", sentence.c_str()) > 0 &&
                       std::fclose(file) == 0;
  if (!written) std::perror(o.result_file.c_str());
  return written ? 0 : 1;
}

}  // namespace
}  // namespace hugepool

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // progress, also into a pipe
  return hugepool::Run(hugepool::Parse(argc, argv));
}
