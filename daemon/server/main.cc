// hugepoold: see README.md of this folder's parent for how it is put together.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/plant.h"
#include "daemon/server/daemon.h"
#include "daemon/server/options.h"
#include "daemon/sys/lease_probe.h"

namespace hugepool::server {
namespace {

// Exit codes beside 0. 78 is EX_CONFIG: a supervisor should not start us again
// with the same configuration.
constexpr int kCannotRun = 1;
constexpr int kUsage = 2;
constexpr int kBadConfig = 78;

// Leased memory must not get into core dumps (N25). MADV_DONTDUMP on our side
// alone would end page-table sharing, so the dump filter does it: bits 5 and 6
// are private and shared huge pages.
void KeepHugePagesOutOfCores() {
  const int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  static constexpr char kFilter[] = "0x13";  // the kernel's default less those
  [[maybe_unused]] const ssize_t n = write(fd, kFilter, sizeof(kFilter) - 1);
  close(fd);
}

// Every extent and every connection is a descriptor.
void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// SIGTERM and SIGINT are taken by sigwait in main; all threads inherit the
// mask. SIGPIPE: a client that went away is an EPIPE.
sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return set;
}

int Main(int argc, char** argv) {
  auto parsed = ParseCommandLine(argc, argv);
  if (std::holds_alternative<int>(parsed)) return std::get<int>(parsed);
  const Options& options = std::get<Options>(parsed);
  absl::StatusOr<Config> config = ConfigFor(options);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n",
                 std::string(config.status().message()).c_str());
    return kBadConfig;
  }
  SetLogLevel(config->log_level);
  if (options.check_only) {
    std::printf("configuration ok\n");
    return 0;
  }
  if (!options.plant.empty()) {
    const absl::Status planted = PlantDefect(options.plant);
    if (!planted.ok()) {
      std::fprintf(stderr, "%s\n", std::string(planted.message()).c_str());
      return kUsage;
    }
  }
  sys::IgnoreLeaseSignals();
  const sigset_t signals = BlockSignals();
  KeepHugePagesOutOfCores();
  RaiseFileLimit();
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(*config);
  if (!daemon.ok()) {
    Log(LogLevel::kError, absl::StrCat("cannot start: ",
                                       daemon.status().message()));
    return absl::IsInvalidArgument(daemon.status()) ? kBadConfig : kCannotRun;
  }
  int signal_number = 0;
  do {
    sigwait(&signals, &signal_number);
    if (signal_number == SIGHUP) {
      Log(LogLevel::kWarning,
          "SIGHUP ignored: changing the configuration of a running daemon is "
          "not possible yet; restart it");
    }
  } while (signal_number == SIGHUP);
  Log(LogLevel::kInfo, "stopping");
  (*daemon)->Stop();
  return 0;
}

}  // namespace
}  // namespace hugepool::server

int main(int argc, char** argv) { return hugepool::server::Main(argc, argv); }
