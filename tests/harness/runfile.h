// Programs that a test has as bazel data.
#ifndef HUGEPOOL_TESTS_HARNESS_RUNFILE_H_
#define HUGEPOOL_TESTS_HARNESS_RUNFILE_H_

#include <string>

namespace hugepool::testing {

// The absolute path of `path` (from the repository's root) among the data of
// the running test; relative to the working directory outside bazel.
std::string RunfilePath(const std::string& path);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_RUNFILE_H_
