// How much others on this machine have to wait (PSI).
#ifndef HUGEPOOL_DAEMON_SYS_PRESSURE_H_
#define HUGEPOOL_DAEMON_SYS_PRESSURE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace hugepool::sys {

// Thread-safe.
class Pressure {
 public:
  virtual ~Pressure() = default;
  // In how much of the last ten seconds, in percent, something waited for a CPU
  // or for memory; of that control group of others in which it was most.
  // nullopt where there is none to ask. Reads some small files: not for hot
  // paths.
  virtual std::optional<double> Read() const = 0;
};

// Of control groups version 2, wherever they are mounted. The system's own
// figures will not do: our idle workers, which wait whenever others run, would
// drive them to 100 %. So it asks the groups that do not hold this process: on
// the way from the root to our own group each one's other children, and our own
// group's children.
class CgroupPressure : public Pressure {
 public:
  // `root`: in front of every path; for tests.
  explicit CgroupPressure(std::string root = "") : root_(std::move(root)) {}
  std::optional<double> Read() const override;

 private:
  const std::string root_;
};

// The "avg10" of the "some" line of such a file; nullopt for other text.
std::optional<double> SomeAvg10(absl::string_view text);

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_PRESSURE_H_
