#include "tests/harness/runfile.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace hugepool::testing {
namespace {

std::string WorkingDirectory() {
  char buffer[PATH_MAX];
  return getcwd(buffer, sizeof(buffer)) != nullptr ? buffer : ".";
}

}  // namespace

std::string RunfilePath(const std::string& path) {
  const char* const srcdir = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  if (srcdir != nullptr && workspace != nullptr) {
    return absl::StrCat(srcdir, "/", workspace, "/", path);
  }
  return absl::StrCat(WorkingDirectory(), "/", path);
}

}  // namespace hugepool::testing
