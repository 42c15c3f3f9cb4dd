// A folder of small files that stands for /sys or /proc.
#ifndef HUGEPOOL_DAEMON_SYS_TESTING_FAKE_TREE_H_
#define HUGEPOOL_DAEMON_SYS_TESTING_FAKE_TREE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hugepool::sys::testing {

// Removed at the end of its life.
class FakeTree {
 public:
  FakeTree() {
    std::string name = ::testing::TempDir() + "/hugepool-tree-XXXXXX";
    root_ = mkdtemp(name.data()) != nullptr ? name : std::string();
    EXPECT_FALSE(root_.empty());
  }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;
  ~FakeTree() { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& path) const { return root_ + path; }
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file(Path(path));
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

 private:
  std::string root_;
};

}  // namespace hugepool::sys::testing

#endif  // HUGEPOOL_DAEMON_SYS_TESTING_FAKE_TREE_H_
