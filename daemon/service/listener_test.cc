// Directories and sockets: claims, names, modes.
#include "daemon/service/listener.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "daemon/service/testing/test_dir.h"
#include "gtest/gtest.h"

namespace hugepool::service {
namespace {

using testing::TestDir;

mode_t ModeOf(const std::string& path) {
  struct stat facts = {};
  return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

bool Exists(const std::string& path) {
  struct stat facts = {};
  return lstat(path.c_str(), &facts) == 0;
}

bool CanConnect(const std::string& path, int type) {
  const UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof address) == 0;
}

TEST(SocketDirTest, MakesTheDirectoryAndOpensItLast) {
  TestDir tmp;
  const std::string path = tmp.path() + "/d";
  auto dir = SocketDir::Claim(path);
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_EQ(ModeOf(path), 0700u);
  auto socket = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {.any = true});
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(ModeOf(path), 0700u);
  ASSERT_TRUE((*dir)->Open().ok());
  EXPECT_EQ(ModeOf(path), 0755u);
  EXPECT_EQ(ModeOf(path + "/grpc.sock"), 0666u);
  EXPECT_EQ(ModeOf(path + "/lock"), 0600u);
  EXPECT_TRUE(CanConnect(path + "/grpc.sock", SOCK_STREAM));
}

TEST(SocketDirTest, LeavesTheModeOfADirectoryThatIsThere) {
  TestDir tmp;
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok());
  const mode_t before = ModeOf(tmp.path());
  ASSERT_TRUE((*dir)->Open().ok());
  EXPECT_EQ(ModeOf(tmp.path()), before);
}

TEST(SocketDirTest, ModesFollowTheAccessRule) {
  TestDir tmp;
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok());
  auto own = (*dir)->Listen(kAdminSocket, SOCK_STREAM, {});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(ModeOf((*own)->path()), 0600u);
  auto group = (*dir)->Listen(kFdSocket, SOCK_SEQPACKET, {.group = getgid()});
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(ModeOf((*group)->path()), 0660u);
}

TEST(SocketDirTest, RemovesItsOwnSocketsOnly) {
  TestDir tmp;
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok());
  auto first = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {});
  ASSERT_TRUE(first.ok());
  const std::string path = (*first)->path();
  auto second = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {});  // replaces it
  ASSERT_TRUE(second.ok());
  (*first)->Close();
  EXPECT_TRUE(CanConnect(path, SOCK_STREAM));
  (*second)->Close();
  EXPECT_FALSE(Exists(path));
  EXPECT_TRUE(Exists(tmp.path() + "/lock"));
}

TEST(SocketDirTest, DoesNotReplaceOtherFiles) {
  TestDir tmp;
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok());
  const std::string path = tmp.path() + "/grpc.sock";
  UniqueFd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)).reset();
  EXPECT_FALSE((*dir)->Listen(kGrpcSocket, SOCK_STREAM, {}).ok());
  EXPECT_TRUE(Exists(path));
}

TEST(SocketDirTest, RefusesADirectoryThatOthersCanWriteTo) {
  TestDir tmp;
  ASSERT_EQ(chmod(tmp.path().c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(SocketDir::Claim(tmp.path()).status()));
}

// N49: a socket's path has at most 107 bytes.
TEST(SocketDirTest, N49TooLongPathsAreRefusedClearly) {
  TestDir tmp;
  const size_t room = 107 - std::string("/admin.sock").size();
  const std::string longest =
      tmp.path() + "/" + std::string(room - tmp.path().size() - 1, 'x');
  auto dir = SocketDir::Claim(longest);
  ASSERT_TRUE(dir.ok()) << dir.status();
  for (const char* name : {kGrpcSocket, kAdminSocket}) {
    auto socket = (*dir)->Listen(name, SOCK_STREAM, {});
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(CanConnect((*socket)->path(), SOCK_STREAM));
  }
  for (const std::string& path :
       {longest + "x", tmp.path() + "/" + std::string(200, 'x')}) {
    const absl::Status status = SocketDir::Claim(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "107")) << status;
    EXPECT_FALSE(Exists(path));
  }
}

// N56: '@' makes no abstract socket here, nor a file named '@x'.
TEST(SocketDirTest, N56AbstractAndRelativePathsAreRefused) {
  const absl::Status status = SocketDir::Claim("@hugepool").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "abstract")) << status;
  EXPECT_TRUE(absl::IsInvalidArgument(SocketDir::Claim("run").status()));
}

// N50: at no moment does a socket grant more than it will, whatever the umask.
TEST(SocketDirTest, N50NeverOpenToAll) {
  TestDir tmp;
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok());
  const mode_t old = umask(0);
  // relaxed: flags that are only looked at.
  std::atomic<bool> stop{false};
  std::atomic<int> looks{0};
  std::atomic<int> open_to_all{0};
  std::thread watcher([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      for (const char* name : {"/.grpc.new", "/grpc.sock"}) {
        struct stat facts = {};
        if (lstat((tmp.path() + name).c_str(), &facts) != 0) continue;
        looks.fetch_add(1, std::memory_order_relaxed);
        if ((facts.st_mode & 0007) != 0) {
          open_to_all.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
  });
  for (int i = 0; i < 2000; ++i) {
    auto socket =
        (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {.group = getgid()});
    ASSERT_TRUE(socket.ok()) << socket.status();
  }
  stop.store(true, std::memory_order_relaxed);
  watcher.join();
  umask(old);
  EXPECT_GT(looks.load(), 0);
  EXPECT_EQ(open_to_all.load(), 0);
}

// T6: the second daemon leaves without touching anything.
TEST(SocketDirTest, T6SecondDaemonIsRefused) {
  TestDir tmp;
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok());
  auto socket = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {});
  ASSERT_TRUE(socket.ok());
  const absl::Status status = SocketDir::Claim(tmp.path()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), std::to_string(getpid())))
      << status;
  EXPECT_TRUE(CanConnect((*socket)->path(), SOCK_STREAM));
}

// T6: sockets of a daemon that was killed are replaced.
TEST(SocketDirTest, T6StaleSocketsAreReplaced) {
  TestDir tmp;
  const pid_t child = fork();
  if (child == 0) {
    auto dir = SocketDir::Claim(tmp.path());
    if (!dir.ok()) _exit(1);
    auto socket = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {});
    raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string path = tmp.path() + "/grpc.sock";
  ASSERT_TRUE(Exists(path));
  ASSERT_FALSE(CanConnect(path, SOCK_STREAM));
  auto dir = SocketDir::Claim(tmp.path());
  ASSERT_TRUE(dir.ok()) << dir.status();
  auto socket = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {});
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(CanConnect(path, SOCK_STREAM));
}

// T6: of twenty that start at once, one serves.
TEST(SocketDirTest, T6OneOfTwentyWins) {
  TestDir tmp;
  const std::string path = tmp.path() + "/d";
  int go[2];
  int won[2];
  ASSERT_EQ(pipe2(go, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(won, O_CLOEXEC), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(go[1]);
      char c;
      (void)!read(go[0], &c, 1);  // end of file: go
      auto dir = SocketDir::Claim(path);
      if (!dir.ok()) _exit(absl::IsAlreadyExists(dir.status()) ? 2 : 3);
      auto socket = (*dir)->Listen(kGrpcSocket, SOCK_STREAM, {});
      (void)!write(won[1], socket.ok() ? "1" : "0", 1);
      pause();
      _exit(4);
    }
    children.push_back(child);
  }
  close(go[0]);
  close(go[1]);
  char c = 0;
  ASSERT_EQ(read(won[0], &c, 1), 1);
  EXPECT_EQ(c, '1');
  // The losers end by themselves; the winner serves until it is killed.
  int losers = 0;
  for (int i = 0; i < 19; ++i) {
    int status = 0;
    ASSERT_GT(waitpid(-1, &status, 0), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) ++losers;
  }
  EXPECT_EQ(losers, 19);
  EXPECT_TRUE(CanConnect(path + "/grpc.sock", SOCK_STREAM));
  for (pid_t child : children) kill(child, SIGKILL);
  int status = 0;
  ASSERT_GT(waitpid(-1, &status, 0), 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  close(won[0]);
  close(won[1]);
}

}  // namespace
}  // namespace hugepool::service
