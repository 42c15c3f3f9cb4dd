// The attacks in the mode of --mode=retire|in-place|let-go.
#include <cstdio>

#include "gtest/gtest.h"
#include "tests/attacks/attack_world.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (hugepool::testing::ParseMode(argv[i])) continue;
    std::fprintf(stderr, "unknown argument %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
