// The read guard's protocol (daemon/base/read_guard.h), step by step, in all
// orders; and with each of its rules broken, which must be found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>

#include "tests/models/explorer.h"

namespace hugepool::model {
namespace {

// What can be broken.
struct Rules {
  Order enter = Order::kSeqCst;
  Order follow = Order::kSeqCst;
  Order replace = Order::kSeqCst;
  Order look = Order::kSeqCst;
  Order leave = Order::kRelease;
  // An exchange, not a store.
  bool exchange = true;
  // Cells of both phases are looked at.
  bool both_phases = true;
  // What is retired later waits for a batch of its own.
  bool own_batch = true;
};

struct Scene {
  int readers = 1;
  int replacements = 1;
  // Looks at the cells after the last replacement.
  int looks = 3;
};

// Registers of a reader, and of the writer.
constexpr Reg kPhase = 0;
constexpr Reg kPart = 1;
constexpr Reg kCell = 2;
constexpr Reg kSeen = 3;     // bits: cells that were seen at zero
constexpr Reg kSwapped = 4;  // whether the phases were, for this batch
constexpr Reg kBatch = 5;    // bits: parts
constexpr Reg kNext = 6;

// One pointer to part 0, which is replaced by part 1, and that by part 2. One
// stripe: that of a reader's thread.
class GuardModel {
 public:
  GuardModel(const Scene& scene, const Rules& rules) : rules_(rules) {
    pointer_ = model_.Add("the pointer", 0);
    phase_ = model_.Add("the phase", 0);
    for (int i = 0; i < 2; ++i) {
      cells_[i] = model_.Add("cell " + std::to_string(i), 0);
    }
    freed_ = model_.Add("the freed parts", 0);
    for (int i = 0; i < scene.readers; ++i) AddReader(i);
    AddWriter(scene);
  }
  Result Explore(Machine machine) const {
    return model::Explore(model_, machine);
  }

 private:
  void AddReader(int i);
  void AddWriter(const Scene& scene);
  void Replace(Program* p, int part);
  void Look(Program* p, int number);

  const Rules rules_;
  Model model_;
  Var pointer_, phase_, cells_[2], freed_;
};

void SetBits(int8_t* to, int bits) { *to = static_cast<int8_t>(*to | bits); }

bool InPhaseOne(const Regs& r) { return r[kPhase] == 1; }

void GuardModel::AddReader(int i) {
  Program p("reader " + std::to_string(i + 1));
  p.Load(kPhase, phase_, Order::kRelaxed, "which phase?")
      .If(InPhaseOne, "one")
      .Add(cells_[0], 1, rules_.enter, "enter cell 0")
      .Goto("in")
      .Label("one")
      .Add(cells_[1], 1, rules_.enter, "enter cell 1")
      .Label("in")
      .Load(kPart, pointer_, rules_.follow, "follow the pointer");
  for (const char* text : {"read the part", "read on"}) {
    p.Plain(text, [freed = freed_](View& v) {
      if ((v[freed] >> v.reg(kPart)) & 1) v.Fail("read what was freed");
    });
  }
  p.If(InPhaseOne, "leave one")
      .Add(cells_[0], -1, rules_.leave, "leave cell 0")
      .Goto("end")
      .Label("leave one")
      .Add(cells_[1], -1, rules_.leave, "leave cell 1")
      .Label("end");
  model_.Run(std::move(p).Done());
}

void GuardModel::Replace(Program* p, int part) {
  const std::string text = "replace part " + std::to_string(part);
  if (rules_.exchange) {
    p->Swap(pointer_, part + 1, rules_.replace, text);
  } else {
    p->Store(pointer_, part + 1, rules_.replace, text);
  }
  p->Plain("retire it", [part, own = rules_.own_batch](View& v) {
    SetBits(&v.reg(own ? kNext : kBatch), 1 << part);
  });
}

// A Collect, up to a batch that is freed.
void GuardModel::Look(Program* p, int number) {
  const std::string tag = std::to_string(number);
  p->Plain("close a batch where there is none", [](View& v) {
    if (v.reg(kBatch) != 0) return;
    v.reg(kBatch) = std::exchange(v.reg(kNext), int8_t{0});
    v.reg(kSeen) = v.reg(kSwapped) = 0;
  });
  for (int i = 0; i < 2; ++i) {
    const std::string skip = "skip " + tag + std::to_string(i);
    p->If([i](const Regs& r) { return ((r[kSeen] >> i) & 1) != 0; }, skip)
        .Load(kCell, cells_[i], rules_.look,
              "look at cell " + std::to_string(i))
        .Plain("note whether it is empty",
               [i](View& v) {
                 if (v.reg(kCell) == 0) {
                   SetBits(&v.reg(kSeen), 1 << i);
                 }
               })
        .Label(skip);
  }
  const bool both = rules_.both_phases;
  p->If(
       [both](const Regs& r) {
         const int other = 1 << (1 - r[kPhase]);
         return both ? r[kSeen] != 3 : (r[kSeen] & other) == 0;
       },
       "not yet" + tag)
      .Plain("free the batch",
             [freed = freed_](View& v) {
               SetBits(&v[freed], v.reg(kBatch));
               v.reg(kBatch) = 0;
             })
      .Goto("end" + tag)
      .Label("not yet" + tag)
      .If(
          [](const Regs& r) {
            return r[kSwapped] != 0 || ((r[kSeen] >> (1 - r[kPhase])) & 1) == 0;
          },
          "end" + tag)
      .If(InPhaseOne, "to zero" + tag)
      .Store(phase_, 1, Order::kRelaxed, "swap the phases")
      .Goto("swapped" + tag)
      .Label("to zero" + tag)
      .Store(phase_, 0, Order::kRelaxed, "swap the phases")
      .Label("swapped" + tag)
      .Plain("remember that",
             [](View& v) {
               v.reg(kPhase) = static_cast<int8_t>(1 - v.reg(kPhase));
               v.reg(kSwapped) = 1;
             })
      .Label("end" + tag);
}

void GuardModel::AddWriter(const Scene& scene) {
  Program p("writer");
  int looks = 0;
  for (int part = 0; part < scene.replacements; ++part) {
    if (part > 0) Look(&p, looks++);
    Replace(&p, part);
  }
  for (int i = 0; i < scene.looks; ++i) Look(&p, looks++);
  model_.Run(std::move(p).Done());
}

constexpr Machine kAll[] = {Machine::kInOrder, Machine::kStoreBuffers,
                            Machine::kWeak};

TEST(ReadGuardModel, IsRightInAllOrders) {
  const Scene scenes[] = {
      {.readers = 1, .replacements = 1, .looks = 3},
      {.readers = 2, .replacements = 1, .looks = 3},
      {.readers = 2, .replacements = 2, .looks = 3},
      {.readers = 3, .replacements = 1, .looks = 2},
  };
  for (const Scene& s : scenes) {
    for (const Machine machine : kAll) {
      const Result result = GuardModel(s, {}).Explore(machine);
      EXPECT_EQ(result.violation, "") << ToString(machine) << "\n"
                                      << result.steps;
      std::printf(
          "%d readers, %d replacements, %d looks, %s: %llu states, "
          "%llu ends\n",
          s.readers, s.replacements, s.looks, ToString(machine),
          static_cast<unsigned long long>(result.states),
          static_cast<unsigned long long>(result.ends));
      EXPECT_GT(result.ends, 1u);
    }
  }
}

void MustFail(const std::string& rule, const Scene& scene, const Rules& rules,
              Machine machine) {
  const Result result = GuardModel(scene, rules).Explore(machine);
  EXPECT_EQ(result.violation, "read what was freed") << rule;
  std::printf("%s (%s): %s\n%s\n", rule.c_str(), ToString(machine),
              result.violation.c_str(), result.steps.c_str());
}

TEST(ReadGuardModel, EnteringMustBeSeqCst) {
  MustFail("entered with acq_rel", {}, {.enter = Order::kAcqRel},
           Machine::kWeak);
}

TEST(ReadGuardModel, FollowingMustBeSeqCst) {
  MustFail("followed with acquire", {}, {.follow = Order::kAcquire},
           Machine::kWeak);
}

TEST(ReadGuardModel, ReplacingMustBeSeqCst) {
  MustFail("replaced with acq_rel", {}, {.replace = Order::kAcqRel},
           Machine::kWeak);
  MustFail("replaced by a store with release", {},
           {.replace = Order::kRelease, .exchange = false},
           Machine::kStoreBuffers);
}

TEST(ReadGuardModel, LookingMustBeSeqCst) {
  MustFail("looked with acquire", {}, {.look = Order::kAcquire},
           Machine::kWeak);
}

TEST(ReadGuardModel, BothPhasesMustBeLookedAt) {
  MustFail("only the other phase looked at", {}, {.both_phases = false},
           Machine::kInOrder);
}

TEST(ReadGuardModel, WhatIsRetiredLaterMustHaveABatchOfItsOwn) {
  MustFail("retired into the open batch", {.readers = 2, .replacements = 2},
           {.own_batch = false}, Machine::kInOrder);
}

}  // namespace
}  // namespace hugepool::model
