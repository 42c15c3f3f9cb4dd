#include "tests/harness/hands.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/errors.h"
#include "daemon/base/errno_status.h"
#include "tests/harness/pins.h"

namespace hugepool::testing {
namespace {

struct Watched {
  uintptr_t begin;
  uintptr_t end;
  uintptr_t page;
};
constexpr int kMaxWatched = 4096;
Watched g_watched[kMaxWatched];
// Release after a slot is written, acquire by the handler.
std::atomic<int> g_watched_count{0};
std::atomic<uint64_t> g_faults{0};

void OnFault(int signal_number, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const int n = g_watched_count.load(std::memory_order_acquire);
  for (int i = n - 1; i >= 0; --i) {
    const Watched& w = g_watched[i];
    if (at < w.begin || at >= w.end) continue;
    void* const page = reinterpret_cast<void*>(at & ~(w.page - 1));
    if (mmap(page, w.page, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
             0) == page) {
      g_faults.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  signal(signal_number, SIG_DFL);
}

}  // namespace

Hands::Hands() = default;
Hands::~Hands() { loops.clear(); }

Loop::Loop(std::function<void(Loop*)> step)
    : thread_([this, step = std::move(step)] {
        while (!stop_.load(std::memory_order_relaxed)) {
          step(this);
          rounds.fetch_add(1, std::memory_order_relaxed);
        }
      }) {}

void Loop::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

Line Ok() { return Line("ok"); }

Line Refused(const absl::Status& status) {
  Line line("error");
  line.Set("code", absl::StatusCodeToString(status.code()));
  line.Set("message", std::string(status.message()));
  if (const auto detail = client::ErrorDetailOf(status)) {
    line.Set("reason", v1::ErrorReason_Name(detail->reason()));
    line.Set("hint", detail->hint());
    line.Set("wanted", detail->wanted_bytes());
    line.Set("available", detail->available_bytes());
  }
  return line;
}

Line Failed(const std::string& what) {
  const int error = errno;
  return Refused(ErrnoToStatus(error, what))
      .Set("errno", static_cast<uint64_t>(error));
}

void InstallFaultHandler() {
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void WatchForFaults(const client::MappedRange& range, uint64_t page_size) {
  const int n = g_watched_count.load(std::memory_order_relaxed);
  const auto begin = reinterpret_cast<uintptr_t>(range.address());
  const Watched w = {begin, begin + range.size().value(), page_size};
  // A test makes the same lease many times, mostly at the same address.
  for (int i = 0; i < n; ++i) {
    if (g_watched[i].begin == w.begin && g_watched[i].end == w.end &&
        g_watched[i].page == w.page) {
      return;
    }
  }
  if (n == kMaxWatched) return;
  g_watched[n] = w;
  g_watched_count.store(n + 1, std::memory_order_release);
}

uint64_t Faults() { return g_faults.load(std::memory_order_relaxed); }

}  // namespace hugepool::testing
