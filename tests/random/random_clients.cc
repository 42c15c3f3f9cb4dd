// Many clients at a time on real pages, some of them killed:
//
//   random_clients [SECONDS [SEED]] [--plant=DEFECT] [--until-violation]
//
// Looks at every byte that is lent, at every pattern before it is given back,
// and at the books when all have left. The last line says what was done; exit
// code 0 without violations, 1 with, 77 where there are no pages to be had.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/harness/guards.h"
#include "tests/random/herd.h"

int main(int argc, char** argv) {
  namespace t = hugepool::testing;
  t::HerdOptions options;
  std::vector<uint64_t> numbers;
  for (int i = 1; i < argc; ++i) {
    uint64_t number = 0;
    if (std::strncmp(argv[i], "--plant=", 8) == 0) {
      options.plant = argv[i] + 8;
    } else if (std::strcmp(argv[i], "--until-violation") == 0) {
      options.until_violation = true;
      options.checkpoint_every = absl::Seconds(3);
    } else if (absl::SimpleAtoi(argv[i], &number)) {
      numbers.push_back(number);
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (!numbers.empty()) {
    options.length = absl::Seconds(static_cast<int64_t>(numbers[0]));
  }
  if (numbers.size() > 1) options.seed = numbers[1];
  auto pages = t::KernelPages::Reserve(hugepool::PageCount(t::Herd::kPages2M),
                                       hugepool::PageCount(t::Herd::kPages1G));
  if (!pages.ok()) {
    std::printf("skipped: %s\n", pages.status().ToString().c_str());
    return 77;
  }
  t::Herd herd(options);
  const absl::Status ran = herd.Run();
  if (!ran.ok()) {
    std::printf("cannot run: %s\n", ran.ToString().c_str());
    return 1;
  }
  const t::HerdResult& r = herd.result();
  std::printf("seed %llu, %llu checkpoints\n",
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(r.checkpoints));
  std::printf(
      "random: leases %llu kills %llu bytes_checked %llu "
      "violations %llu\n",
      static_cast<unsigned long long>(r.leases),
      static_cast<unsigned long long>(r.kills),
      static_cast<unsigned long long>(r.bytes_checked),
      static_cast<unsigned long long>(r.violations));
  return r.violations == 0 ? 0 : 1;
}
