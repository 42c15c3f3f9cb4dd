// Random operations on the deterministic core, checked after each few. A failing
// sequence is printed as code for a regression test.
//
//   --seeds=N --ops=N --first_seed=N --plant=DEFECT
//
// With --plant (test builds) a defect is planted first; the run must then fail,
// which tests/core/plants_test.sh asks of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/plant.h"
#include "tests/core/core_world.h"

namespace hugepool {
namespace {

int g_seeds = 24;
int g_ops = 10000;
int g_first_seed = 1;
uint64_t g_received = 0;
uint64_t g_copied = 0;
uint64_t g_revoked = 0;
Bytes g_split;

// Draws operations and remembers them as code.
class Driver {
 public:
  Driver(uint32_t seed, const CoreWorld::Options& options)
      : random_(seed), world_(options) {}

  CoreWorld& world() { return world_; }
  void One();
  std::string Tail() const {
    std::string out;
    const size_t from = code_.size() > 60 ? code_.size() - 60 : 0;
    for (size_t i = from; i < code_.size(); ++i) {
      absl::StrAppend(&out, code_[i], "\n");
    }
    return out;
  }
  void Save(const std::string& path) const {
    if (std::FILE* f = std::fopen(path.c_str(), "w")) {
      for (const std::string& line : code_) {
        std::fprintf(f, "%s\n", line.c_str());
      }
      std::fclose(f);
    }
  }

 private:
  int Draw(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  template <typename... Args>
  void Do(const char* name, void (CoreWorld::*op)(Args...), Args... args) {
    std::string line = absl::StrCat("w.", name, "(");
    [[maybe_unused]] const char* comma = "";
    ((absl::StrAppend(&line, comma, args), comma = ", "), ...);
    code_.push_back(absl::StrCat(line, ");"));
    (world_.*op)(args...);
  }

  std::mt19937 random_;
  CoreWorld world_;
  std::vector<std::string> code_;
};

#define HP_DO(op, ...) Do(#op, &CoreWorld::op __VA_OPT__(, ) __VA_ARGS__)

void Driver::One() {
  const int client = Draw(CoreWorld::kClients);
  const int dice = Draw(1000);
  if (dice < 60) return HP_DO(Connect, client);
  if (dice < 70) return HP_DO(Hang, client);
  if (dice < 90) return HP_DO(Kill, client);
  if (dice < 280) {
    const int gigantic = Draw(6) == 0;
    const int pages = gigantic ? 1 + Draw(2) : 1 + Draw(12);
    const int flags = Draw(8) == 0 ? Draw(128) : Draw(2) | (Draw(2) * 8);
    return HP_DO(Acquire, client, pages, gigantic, Draw(4) - 2, flags);
  }
  if (dice < 300) {
    return HP_DO(Copy, client, Draw(16), Draw(4), 1 + Draw(6),
                 Draw(2) | (Draw(2) * 8));
  }
  if (dice < 450) return HP_DO(Receive, client, static_cast<int>(Draw(8) != 0));
  if (dice < 550) {
    return HP_DO(Release, client, Draw(16), static_cast<int>(Draw(3) == 0));
  }
  if (dice < 566) return HP_DO(DropKept, Draw(64));
  if (dice < 570) return HP_DO(Revoke, Draw(64), Draw(2) * Draw(3000));
  if (dice < 600) {
    return HP_DO(ReleasePages, Draw(64), Draw(12), 1 + Draw(4));
  }
  if (dice < 640) return HP_DO(WriteAgain, Draw(64));
  if (dice < 650) return HP_DO(ForkAndKeep, Draw(64));
  if (dice < 660) return HP_DO(Reopen, Draw(64));
  if (dice < 668) return HP_DO(Punch, Draw(64), Draw(12));
  if (dice < 674) return HP_DO(Truncate, Draw(64));
  if (dice < 680) return HP_DO(Chmod, Draw(64));
  if (dice < 690) return HP_DO(Pin, Draw(64));
  if (dice < 700) return HP_DO(Unpin, Draw(64));
  if (dice < 800) return HP_DO(Step, 1 + Draw(6));
  if (dice < 850) return HP_DO(StepAhead, 1 + Draw(6));
  if (dice < 920) return HP_DO(Deliver);
  if (dice < 922) return HP_DO(LoseEvents);
  if (dice < 970) return HP_DO(Advance, 1 + Draw(Draw(10) == 0 ? 12000 : 300));
  if (dice < 980) return HP_DO(TakeOutside, 1 + Draw(8));
  if (dice < 987) return HP_DO(ReturnOutside);
  if (dice < 990) return HP_DO(Recount);
  if (dice < 994) return HP_DO(Verify, Draw(8), static_cast<int>(Draw(2)));
  return HP_DO(FailSomething, Draw(64));
}

void RunSeed(uint32_t seed, const CoreWorld::Options& options) {
  Driver driver(seed, options);
  std::string wrong;
  for (int i = 0; i < g_ops && wrong.empty(); ++i) {
    driver.One();
    if (i % 20 == 0) wrong = driver.world().Check();
  }
  if (wrong.empty()) wrong = driver.world().CheckAllComesBack();
  g_received += driver.world().received();
  g_copied += driver.world().copied();
  g_split += driver.world().split();
  g_revoked += static_cast<uint64_t>(driver.world().revoked());
  if (wrong.empty()) return;
  const char* dir = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const std::string path =
      absl::StrCat(dir != nullptr ? dir : "/tmp", "/op_sequence_", seed, ".txt");
  driver.Save(path);
  FAIL() << "seed " << seed << ": " << wrong << "\nthe last operations (all of "
         << "them: " << path << "):\nCoreWorld w({.let_go = "
         << (options.let_go ? "true" : "false") << ", .honest = "
         << (options.honest ? "true" : "false") << "});\n"
         << driver.Tail();
}

TEST(OpSequence, HonestHolders) {
  for (int s = 0; s < g_seeds && !HasFailure(); ++s) {
    RunSeed(static_cast<uint32_t>(g_first_seed + s), {.honest = true});
  }
}

TEST(OpSequence, HostileHolders) {
  for (int s = 0; s < g_seeds && !HasFailure(); ++s) {
    RunSeed(static_cast<uint32_t>(g_first_seed + 1000 + s), {});
  }
}

TEST(OpSequence, KernelWithoutProbe) {
  for (int s = 0; s < g_seeds && !HasFailure(); ++s) {
    RunSeed(static_cast<uint32_t>(g_first_seed + 2000 + s),
            {.let_go = true, .honest = true});
  }
}

bool Flag(const char* arg, const char* name, int* value) {
  const std::string prefix = absl::StrCat("--", name, "=");
  return std::strncmp(arg, prefix.c_str(), prefix.size()) == 0 &&
         absl::SimpleAtoi(arg + prefix.size(), value);
}

}  // namespace
}  // namespace hugepool

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hugepool::SetLogLevel(hugepool::LogLevel::kError);
  for (int i = 1; i < argc; ++i) {
    if (hugepool::Flag(argv[i], "seeds", &hugepool::g_seeds) ||
        hugepool::Flag(argv[i], "ops", &hugepool::g_ops) ||
        hugepool::Flag(argv[i], "first_seed", &hugepool::g_first_seed)) {
      continue;
    }
    if (std::strncmp(argv[i], "--plant=", 8) == 0) {
      const absl::Status planted = hugepool::PlantDefect(argv[i] + 8);
      if (planted.ok()) continue;
      std::fprintf(stderr, "%s\n", planted.ToString().c_str());
      return 2;
    }
    std::fprintf(stderr, "unknown argument %s\n", argv[i]);
    return 2;
  }
  const int result = RUN_ALL_TESTS();
  std::printf("%llu extents lent, %llu of them copies; %s split off, %llu "
              "leases revoked\n",
              static_cast<unsigned long long>(hugepool::g_received),
              static_cast<unsigned long long>(hugepool::g_copied),
              hugepool::ToString(hugepool::g_split).c_str(),
              static_cast<unsigned long long>(hugepool::g_revoked));
  return result;
}
