// A directory with a short name for sockets.
#ifndef HUGEPOOL_DAEMON_SERVICE_TESTING_TEST_DIR_H_
#define HUGEPOOL_DAEMON_SERVICE_TESTING_TEST_DIR_H_

#include <stdlib.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace hugepool::service::testing {

// Made at construction, removed with all in it at the end. Not TEST_TMPDIR: that
// is too long for a socket's path. Others may look into it, for tests that
// connect as another user.
class TestDir {
 public:
  TestDir() {
    char name[] = "/tmp/hpXXXXXX";
    if (mkdtemp(name) == nullptr || chmod(name, 0755) != 0) std::abort();
    path_ = name;
  }
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace hugepool::service::testing

#endif  // HUGEPOOL_DAEMON_SERVICE_TESTING_TEST_DIR_H_
