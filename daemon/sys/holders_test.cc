// Real processes with ordinary memory under the name of ours.
#include "daemon/sys/holders.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/unique_fd.h"
#include "daemon/sys/memfd_name.h"

namespace hugepool::sys {
namespace {

class HoldersTest : public ::testing::Test {
 protected:
  HoldersTest() : fd_(memfd_create(kMemfdName, MFD_CLOEXEC)) {
    struct stat st = {};
    EXPECT_EQ(ftruncate(fd_.get(), 4096), 0);
    EXPECT_EQ(fstat(fd_.get(), &st), 0);
    inode_ = InodeId(st.st_ino);
  }
  ~HoldersTest() override {
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  // A child that has the file as asked, and waits; once it has.
  pid_t Child(bool open, bool mapped) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (mapped) mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd_.get(), 0);
      if (!open) close(fd_.get());
      (void)!write(ends[1], "x", 1);
      while (true) pause();
    }
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    children_.push_back(child);
    return child;
  }

  UniqueFd fd_;
  InodeId inode_;
  ProcHolders holders_;
  std::vector<pid_t> children_;
};

TEST_F(HoldersTest, SaysWhoHasItOpenAndWhoMapped) {
  const pid_t both = Child(true, true);
  const pid_t opened = Child(true, false);
  const pid_t mapped = Child(false, true);
  Child(false, false);
  const auto found = holders_.Find({inode_, InodeId(1)}).processes;
  ASSERT_EQ(found.size(), 3u);  // not this process
  for (const HolderProcess& p : found) {
    EXPECT_EQ(p.open.contains(inode_), p.pid == both || p.pid == opened);
    EXPECT_EQ(p.mapped.contains(inode_), p.pid == both || p.pid == mapped);
    EXPECT_FALSE(p.command.empty());
    EXPECT_EQ(p.uid, getuid());
  }
  EXPECT_TRUE(holders_.Find({InodeId(1)}).processes.empty());
}

TEST_F(HoldersTest, KillsOnlyWhoHasIt) {
  const pid_t holder = Child(false, true);
  const pid_t other = Child(false, false);
  EXPECT_TRUE(holders_.Kill(other, {inode_}).ok());
  EXPECT_TRUE(holders_.Kill(holder, {InodeId(1)}).ok());
  EXPECT_EQ(kill(other, 0), 0);
  EXPECT_EQ(waitpid(holder, nullptr, WNOHANG), 0);
  ASSERT_TRUE(holders_.Kill(holder, {inode_}).ok());
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  // Gone already.
  EXPECT_TRUE(holders_.Kill(holder, {inode_}).ok());
  std::erase(children_, holder);
}

TEST_F(HoldersTest, NeitherItselfNorTheFirstProcess) {
  EXPECT_EQ(holders_.Kill(getpid(), {inode_}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(holders_.Kill(1, {inode_}).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hugepool::sys
