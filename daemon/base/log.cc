#include "daemon/base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/base/views.h"

namespace hugepool {
namespace {

// Relaxed: a filter, orders nothing.
std::atomic<LogLevel> g_level{LogLevel::kInfo};

}  // namespace

std::string_view ToString(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "?";
}

void Log(LogLevel level, std::string_view text) {
  if (level > g_level.load(std::memory_order_relaxed)) return;
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  // Text can come from outside: one event stays one line.
  const std::string flat = absl::StrReplaceAll(AbslView(text), {{"\n", "\\n"}});
  const std::string line =
      terminal ? absl::StrCat("hugepoold: ", AbslView(ToString(level)), ": ",
                              flat, "\n")
               : absl::StrCat("<", static_cast<int>(level), ">", flat, "\n");
  // A full or closed standard error must not stop the daemon.
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, line.data(), line.size());
}

void SetLogLevel(LogLevel level) {
  g_level.store(level, std::memory_order_relaxed);
}

}  // namespace hugepool
