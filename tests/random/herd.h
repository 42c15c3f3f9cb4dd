// A daemon and a changing crowd of random clients.
#ifndef HUGEPOOL_TESTS_RANDOM_HERD_H_
#define HUGEPOOL_TESTS_RANDOM_HERD_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/harness/child_process.h"
#include "tests/harness/daemon_process.h"

namespace hugepool::testing {

struct HerdOptions {
  absl::Duration length = absl::Seconds(60);
  uint64_t seed = 1;
  std::string plant;  // empty: no --plant at all
  // End at the first violation.
  bool until_violation = false;
  size_t clients = 6;  // at a time
  absl::Duration checkpoint_every = absl::Seconds(5);
};

struct HerdResult {
  uint64_t leases = 0;
  uint64_t kills = 0;
  uint64_t bytes_checked = 0;
  uint64_t checkpoints = 0;
  uint64_t violations = 0;
};

// Needs the pages that PagesNeeded says. Not thread-safe.
class Herd {
 public:
  static constexpr uint64_t kPages2M = 96;
  static constexpr uint64_t kPages1G = 1;

  explicit Herd(HerdOptions options);
  // An error where the daemon does not start.
  absl::Status Run();
  const HerdResult& result() const { return result_; }

 private:
  struct Member {
    std::unique_ptr<ChildProcess> child;
    bool killed = false;
  };

  absl::Status StartMember(Member* member);
  // Reads what a member says; ends it in the books when it is gone.
  void Look(Member* member);
  void Hear(const std::string& line);
  void Bury(Member* member, int wait_status);
  void KillSome();
  // Everybody leaves; then every page must be back and every lease over.
  void Checkpoint();
  void Violation(const std::string& what);
  bool Done(absl::Time end) const;

  const HerdOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::vector<Member> members_;
  uint32_t next_owner_ = 0;
  HerdResult result_;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_RANDOM_HERD_H_
