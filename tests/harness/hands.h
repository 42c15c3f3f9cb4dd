// What a test_client has in its hands, and the things it can do with it. Each
// command takes the test's line and makes the answer.
#ifndef HUGEPOOL_TESTS_HARNESS_HANDS_H_
#define HUGEPOOL_TESTS_HARNESS_HANDS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "client/internal/mapping.h"
#include "daemon/base/unique_fd.h"
#include "hugepool/v1/types.pb.h"
#include "tests/harness/line.h"
#include "tests/harness/pattern.h"
#include "tests/harness/raw_client.h"

namespace hugepool::testing {

// Memory that was leased, or received from another process.
struct Memory {
  v1::Lease lease;  // empty where received
  uint64_t generation = 0;
  uint64_t page_size = 0;
  std::vector<UniqueFd> fds;
  std::vector<UniqueFd> dups;
  std::vector<UniqueFd> paths;  // O_PATH
  std::vector<client::MappedRange> ranges;
};

// Something done over and over on a thread.
class Loop {
 public:
  // Calls `step` until the loop ends.
  explicit Loop(std::function<void(Loop*)> step);
  ~Loop() { Stop(); }
  void Stop();

  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> successes{0};
  std::atomic<uint64_t> foreign{0};  // words that belong to somebody else

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Pins;

struct Hands {
  Hands();
  ~Hands();
  // The memory that the line means with "as" ("0" where it does not say).
  Memory& Of(const Line& in) { return memories[in.Get("as", "0")]; }

  std::unique_ptr<RawClient> client;
  std::map<std::string, Memory> memories;
  std::map<std::string, std::unique_ptr<Loop>> loops;
  UniqueFd listening;
  std::unique_ptr<Pins> pins;
};

Line Ok();
Line Refused(const absl::Status& status);
// Of the errno of now.
Line Failed(const std::string& what);

using Command = Line (*)(Hands&, const Line&);
using CommandTable = std::map<std::string, Command>;

// Adds the commands of one file.
void AddLeaseCommands(CommandTable* table);   // the usual life of a lease
void AddHolderCommands(CommandTable* table);  // not letting go
void AddInodeCommands(CommandTable* table);   // what a descriptor allows
void AddPinCommands(CommandTable* table);     // io_uring, vmsplice

// Memory that is taken away under a mapping (SIGBUS) is replaced by zero pages,
// so that the client lives on; the number of times that happened.
void InstallFaultHandler();
void WatchForFaults(const client::MappedRange& range, uint64_t page_size);
uint64_t Faults();

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_HANDS_H_
