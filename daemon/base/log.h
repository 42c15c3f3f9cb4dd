// One line of log per event, to standard error (the journal adds the time).
#ifndef HUGEPOOL_DAEMON_BASE_LOG_H_
#define HUGEPOOL_DAEMON_BASE_LOG_H_

#include <string_view>

namespace hugepool {

enum class LogLevel { kError = 3, kWarning = 4, kInfo = 6, kDebug = 7 };
// As written in log lines and in the configuration.
std::string_view ToString(LogLevel level);

// Writes "<N>text" with the syslog priority that journald understands, or plain
// "level: text" on a terminal. Thread-safe: one write(2) a line. Lines below
// the level set by SetLogLevel are dropped. Not for hot paths.
void Log(LogLevel level, std::string_view text);
void SetLogLevel(LogLevel level);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_LOG_H_
