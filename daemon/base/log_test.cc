#include "daemon/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "daemon/base/unique_fd.h"

namespace hugepool {
namespace {

// What `body` writes to standard error, which is a pipe meanwhile.
template <typename Body>
std::string Captured(Body body) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  UniqueFd saved(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  EXPECT_GE(dup2(writer.get(), STDERR_FILENO), 0);
  body();
  EXPECT_GE(dup2(saved.get(), STDERR_FILENO), 0);
  writer.reset();
  char text[4096];
  const ssize_t n = read(reader.get(), text, sizeof(text));
  return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

// One test: whether standard error is a terminal is decided at the first line.
TEST(Log, OneEventIsOneLineAndLevelsFilter) {
  EXPECT_EQ(Captured([] { Log(LogLevel::kWarning, "two\nlines"); }),
            "<4>two\\nlines\n");
  EXPECT_EQ(Captured([] { Log(LogLevel::kDebug, "not shown"); }), "");
  SetLogLevel(LogLevel::kDebug);
  EXPECT_EQ(Captured([] { Log(LogLevel::kDebug, "shown"); }), "<7>shown\n");
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace hugepool
