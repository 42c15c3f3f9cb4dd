#include "tests/cases/case_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/harness/recount.h"

namespace hugepool::testing {

std::string PoolOf2M(uint64_t pages) {
  return absl::StrCat(
      "backend: hugetlb\n"
      "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
      "pools: [{page_size: 2MiB, target: ",
      pages * 2, "MiB, shapes: [2MiB]}]\n", "zeroing: {bandwidth: none}\n");
}

Line Acquire2M(uint64_t pages, uint64_t wait_ms) {
  return Line("acquire")
      .Set("bytes", pages << 21)
      .Set("page", k2M.bytes().value())
      .Set("wait", wait_ms);
}

void CaseTest::TearDown() {
  if (daemon_ == nullptr) return;
  if (daemon_->Alive()) {
    const absl::Status stopped = daemon_->Stop();
    EXPECT_TRUE(stopped.ok()) << stopped;
  }
  if (HasFailure()) std::fprintf(stderr, "%s", daemon_->Log().c_str());
}

bool CaseTest::HavePages(uint64_t of_2m, uint64_t of_1g) {
  auto pages = KernelPages::Reserve(PageCount(of_2m), PageCount(of_1g));
  if (pages.ok()) {
    pages_ = *std::move(pages);
    return true;
  }
  [&] { GTEST_SKIP() << pages.status(); }();
  return false;
}

void CaseTest::StartDaemon(DaemonOptions options) {
  auto daemon = DaemonProcess::Start(std::move(options));
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
}

bool CaseTest::StartWithPages(uint64_t of_2m) {
  if (!HavePages(of_2m)) return false;
  StartDaemon({.config = PoolOf2M(of_2m), .as = UnprivilegedDaemon()});
  return daemon_ != nullptr;
}

bool CaseTest::StartWithTwoShapes(const std::string& more, uint64_t beyond) {
  if (!HavePages(64 + beyond)) return false;
  StartDaemon(
      {.config = absl::StrCat("backend: hugetlb\n"
                              "listeners: [{dir: \"@DIR@\", group: \"*\"}]\n"
                              "pools: [{page_size: 2MiB, target: 128MiB, "
                              "shapes: [16MiB, 2MiB]}]\n"
                              "zeroing: {bandwidth: none}\n",
                              more),
       .as = UnprivilegedDaemon()});
  return daemon_ != nullptr;
}

Client CaseTest::Connect() {
  auto client = Client::Connect(daemon_->dir());
  EXPECT_TRUE(client) << client.error().message();
  return client.take();
}

std::unique_ptr<ClientProcess> CaseTest::NewClient(uint32_t uid) {
  auto client = ClientProcess::Start({.uid = uid, .gid = uid});
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    std::abort();
  }
  const Line connected =
      (*client)->Ask(Line("connect").Set("dir", daemon_->dir()));
  EXPECT_TRUE(connected.ok()) << connected;
  return *std::move(client);
}

void CaseTest::ExpectServes(uint64_t pages) {
  auto client = NewClient();
  const Line got = client->Ask(Acquire2M(pages, 10000));
  ASSERT_TRUE(got.ok()) << got;
  const Line zero = client->Ask(Line("zero"));
  EXPECT_EQ(zero.Number("nonzero", 1), 0u) << zero;
  EXPECT_EQ(zero.Number("bytes"), pages << 21);
  EXPECT_TRUE(client->Ask(Line("release")).ok());
}

void CaseTest::ExpectAllBack() {
  EXPECT_EQ(WaitForAllClean(daemon_.get()), "");
}

ProgramResult RunProgram(const std::vector<std::string>& argv,
                         const RunAs& as) {
  ProgramResult result;
  char errors[] = "/tmp/hpeXXXXXX";
  const int fd = mkstemp(errors);
  if (fd < 0) return result;
  close(fd);
  auto child = ChildProcess::Start(argv, as, errors);
  if (child.ok()) {
    result.output = (*child)->ReadAll(absl::Seconds(60));
    const auto ended = (*child)->Wait(absl::Seconds(10));
    if (ended.has_value() && WIFEXITED(*ended)) {
      result.exit_code = WEXITSTATUS(*ended);
    }
  }
  std::stringstream text;
  text << std::ifstream(errors).rdbuf();
  result.errors = text.str();
  unlink(errors);
  return result;
}

}  // namespace hugepool::testing
