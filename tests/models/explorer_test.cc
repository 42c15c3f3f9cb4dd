// The machines show what their namesakes do, and no more.
#include "tests/models/explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hugepool::model {
namespace {

using testing::HasSubstr;

constexpr Machine kAll[] = {Machine::kInOrder, Machine::kStoreBuffers,
                            Machine::kWeak};

// Each thread writes one variable and reads the other: can both read zero?
bool BothReadZero(Machine machine, Order write, Order read, bool swap = false) {
  Model model;
  const Var x = model.Add("x", 0);
  const Var y = model.Add("y", 0);
  const Var out[] = {model.Add("first", 1), model.Add("second", 1)};
  for (int t = 0; t < 2; ++t) {
    const Var mine = t == 0 ? x : y;
    const Var other = t == 0 ? y : x;
    Program p(t == 0 ? "one" : "two");
    if (swap) {
      p.Swap(mine, 1, write, "write");
    } else {
      p.Store(mine, 1, write, "write");
    }
    p.Load(0, other, read, "read");
    p.Plain("tell", [to = out[t]](View& v) { v[to] = v.reg(0); });
    model.Run(std::move(p).Done());
  }
  model.at_end = [&out](const Memory& m) {
    return m[out[0]] == 0 && m[out[1]] == 0 ? "both read zero" : "";
  };
  return !Explore(model, machine).violation.empty();
}

TEST(Explorer, StoreBuffering) {
  constexpr Order kSeqCst = Order::kSeqCst;
  constexpr Order kRelease = Order::kRelease;
  constexpr Order kAcquire = Order::kAcquire;
  EXPECT_FALSE(BothReadZero(Machine::kInOrder, kRelease, kAcquire));
  EXPECT_TRUE(BothReadZero(Machine::kStoreBuffers, kRelease, kAcquire));
  EXPECT_TRUE(BothReadZero(Machine::kWeak, kRelease, kAcquire));
  for (const Machine machine : kAll) {
    EXPECT_FALSE(BothReadZero(machine, kSeqCst, kSeqCst)) << ToString(machine);
    EXPECT_FALSE(BothReadZero(machine, kSeqCst, kSeqCst, true));
  }
  // x86 does not need a seq_cst load, or an exchange that says more; Arm does.
  EXPECT_FALSE(BothReadZero(Machine::kStoreBuffers, kSeqCst, kAcquire));
  EXPECT_TRUE(BothReadZero(Machine::kWeak, kSeqCst, kAcquire));
  EXPECT_FALSE(
      BothReadZero(Machine::kStoreBuffers, Order::kAcqRel, kAcquire, true));
  EXPECT_TRUE(BothReadZero(Machine::kWeak, Order::kAcqRel, kAcquire, true));
}

// A message, then a flag: can the flag be seen without the message?
bool FlagWithoutMessage(Machine machine, Order flag) {
  Model model;
  const Var message = model.Add("message", 0);
  const Var ready = model.Add("flag", 0);
  const Var out = model.Add("out", 1);
  Program sender("sender");
  sender.Store(message, 1, Order::kRelaxed, "write")
      .Store(ready, 1, flag, "tell");
  model.Run(std::move(sender).Done());
  Program receiver("receiver");
  receiver.Load(0, ready, Order::kAcquire, "look")
      .If([](const Regs& r) { return r[0] == 0; }, "end")
      .Load(1, message, Order::kRelaxed, "read")
      .Plain("tell", [out](View& v) { v[out] = v.reg(1); })
      .Label("end");
  model.Run(std::move(receiver).Done());
  model.at_end = [out](const Memory& m) { return m[out] == 0 ? "lost" : ""; };
  return !Explore(model, machine).violation.empty();
}

TEST(Explorer, MessagePassing) {
  for (const Machine machine : kAll) {
    EXPECT_FALSE(FlagWithoutMessage(machine, Order::kRelease));
  }
  EXPECT_FALSE(FlagWithoutMessage(Machine::kInOrder, Order::kRelaxed));
  EXPECT_FALSE(FlagWithoutMessage(Machine::kStoreBuffers, Order::kRelaxed));
  EXPECT_TRUE(FlagWithoutMessage(Machine::kWeak, Order::kRelaxed));
}

// Two threads count to two, each by a read and a write.
Result Count(Machine machine, bool locked) {
  Model model;
  const Var mutex = model.Add("mutex", 0);
  const Var n = model.Add("n", 0);
  for (const char* name : {"one", "two"}) {
    Program p(name);
    if (locked) p.Lock(mutex);
    p.Plain("read", [n](View& v) { v.reg(0) = v[n]; });
    p.Plain("write",
            [n](View& v) { v[n] = static_cast<int8_t>(v.reg(0) + 1); });
    if (locked) p.Unlock(mutex);
    model.Run(std::move(p).Done());
  }
  model.at_end = [n](const Memory& m) { return m[n] == 2 ? "" : "lost one"; };
  return Explore(model, machine);
}

TEST(Explorer, LocksExclude) {
  for (const Machine machine : kAll) {
    EXPECT_EQ(Count(machine, true).violation, "") << ToString(machine);
    const Result result = Count(machine, false);
    EXPECT_EQ(result.violation, "lost one");
    EXPECT_THAT(result.steps, HasSubstr("one: read\n"));
  }
}

TEST(Explorer, FindsThreadsThatWaitForEachOther) {
  Model model;
  const Var a = model.Add("a", 0);
  const Var b = model.Add("b", 0);
  Program one("one");
  one.Lock(a).Lock(b).Unlock(b).Unlock(a);
  model.Run(std::move(one).Done());
  Program two("two");
  two.Lock(b).Lock(a).Unlock(a).Unlock(b);
  model.Run(std::move(two).Done());
  for (const Machine machine : kAll) {
    EXPECT_EQ(Explore(model, machine).violation, "no thread can go on");
  }
}

TEST(Explorer, TriesAllThatAThreadMayChoose) {
  Model model;
  const Var n = model.Add("n", 0);
  Program p("one");
  p.Choose(0, 3, "any").Plain("tell", [n](View& v) { v[n] = v.reg(0); });
  model.Run(std::move(p).Done());
  EXPECT_EQ(Explore(model, Machine::kInOrder).ends, 3u);
  model.at_end = [n](const Memory& m) { return m[n] == 2 ? "two" : ""; };
  EXPECT_EQ(Explore(model, Machine::kInOrder).violation, "two");
}

TEST(Explorer, FindsUseAfterTheEnd) {
  Model model;
  const Var freed = model.Add("freed", 0);
  const Var x = model.Add("x", 0, freed);
  Program user("user");
  user.Load(0, x, Order::kRelaxed, "read");
  model.Run(std::move(user).Done());
  Program owner("owner");
  owner.Plain("free", [freed](View& v) { v[freed] = 1; });
  model.Run(std::move(owner).Done());
  EXPECT_EQ(Explore(model, Machine::kInOrder).violation,
            "x used after it was freed");
}

}  // namespace
}  // namespace hugepool::model
