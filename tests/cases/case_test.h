// What the field cases have in common: real pages, a daemon, clients.
#ifndef HUGEPOOL_TESTS_CASES_CASE_TEST_H_
#define HUGEPOOL_TESTS_CASES_CASE_TEST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/hugepool.hpp"
#include "daemon/base/units.h"
#include "gtest/gtest.h"
#include "tests/harness/client_process.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/guards.h"
#include "tests/harness/line.h"

namespace hugepool::testing {

// A listener for everybody and a pool of `pages` single pages of 2 MiB.
std::string PoolOf2M(uint64_t pages);

class CaseTest : public ::testing::Test {
 protected:
  void TearDown() override;

  // Skips the test where the pages cannot be had; true if they are there.
  bool HavePages(uint64_t of_2m, uint64_t of_1g = 0);
  // Fails the test where the daemon does not start.
  void StartDaemon(DaemonOptions options);
  // Pages and a daemon with a pool of all of them.
  bool StartWithPages(uint64_t of_2m);
  // A daemon with 64 pages of 2 MiB, in extents of 8 and of 1, the same in every
  // run, and a kernel that has `beyond` more. `more` configuration.
  bool StartWithTwoShapes(const std::string& more = "", uint64_t beyond = 0);
  // This process as a client.
  Client Connect();
  // A connected client.
  std::unique_ptr<ClientProcess> NewClient(uint32_t uid = 65001);
  // The daemon serves: a client gets `pages` of 2 MiB and they are zero.
  void ExpectServes(uint64_t pages);
  void ExpectAllBack();

  std::unique_ptr<KernelPages> pages_;
  std::unique_ptr<DaemonProcess> daemon_;
};

// "acquire" of `pages` pages of 2 MiB.
Line Acquire2M(uint64_t pages, uint64_t wait_ms = 0);

// The outcome of a program that was run to its end; exit code -1 where it did
// not end by itself.
struct ProgramResult {
  int exit_code = -1;
  std::string output;
  std::string errors;
};
ProgramResult RunProgram(const std::vector<std::string>& argv,
                         const RunAs& as = {});

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_CASES_CASE_TEST_H_
