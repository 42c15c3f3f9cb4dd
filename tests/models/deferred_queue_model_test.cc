// The deferred queue's protocol (daemon/reclaim/deferred_queue.h), step by
// step, in all orders; and with each of its rules broken, which must be found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/explorer.h"

namespace hugepool::model {
namespace {

using testing::Contains;

// What can be broken.
struct Rules {
  Order note = Order::kSeqCst;
  Order look = Order::kSeqCst;
  Order clear = Order::kSeqCst;
  Order read = Order::kSeqCst;
  bool clear_before_read = true;
  bool lock_to_put_back = true;
  bool lock_to_add = true;
  bool reference_last = true;
  bool heed_ended = true;
  // Off: only what comes of it in the end counts.
  bool check_always = true;
};

// Who takes part. One extent; every releaser releases a page of its own.
struct Scene {
  int releasers = 1;
  // Whether a page was released before all this, and the extent is queued.
  bool queued = false;
  int scans = 1;
  // The lease comes back whole.
  bool remover = false;
};

// Registers.
constexpr Reg kSaw = 0;  // the flag, or why not to link
constexpr Reg kLength = 1;
constexpr Reg kBits = 2;
constexpr Reg kChoice = 3;
constexpr Reg kCount = 4;

class QueueModel {
 public:
  QueueModel(const Scene& scene, const Rules& rules)
      : scene_(scene), rules_(rules) {
    const int linked = scene.queued ? 1 : 0;
    freed_ = model_.Add("freed", 0);
    lock_ = model_.Add("the lock", 0);
    length_ = model_.Add("the length", linked);
    pages_ = model_.Add("the pages", scene.queued ? 1 << 6 : 0, freed_);
    queued_ = model_.Add("the flag", linked, freed_);
    linked_ = model_.Add("the link", linked, freed_);
    ended_ = model_.Add("the end mark", 0, freed_);
    taken_ = model_.Add("the taken pages", 0, freed_);
    // The lease's, each releaser's, and the queue's.
    references_ =
        model_.Add("the references", 1 + scene.releasers + linked, freed_);
    for (int i = 0; i < scene.releasers; ++i) AddReleaser(i);
    if (scene.scans > 0) AddScanner();
    if (scene.remover) AddRemover();
    if (rules.check_always) {
      model_.always = [this](const Memory& m) { return WhileUnlocked(m); };
    }
    model_.at_end = [this](const Memory& m) { return AtEnd(m); };
  }
  Result Explore(Machine machine) const {
    return model::Explore(model_, machine);
  }

 private:
  void AddReleaser(int i);
  void AddScanner();
  void AddRemover();
  // Steps that several make.
  void Scan(Program* p, const std::string& end);
  void PutBack(Program* p, const std::string& end);
  void LookAtLink(Program* p);
  void Link(Program* p);
  void Unlink(Program* p);
  void Drop(Program* p);

  std::string WhileUnlocked(const Memory& m) const;
  std::string AtEnd(const Memory& m) const;

  const Scene scene_;
  const Rules rules_;
  Model model_;
  Var freed_, lock_, length_, pages_, queued_, linked_, ended_, taken_,
      references_;
};

// kSaw: whether it is not to be linked.
void QueueModel::LookAtLink(Program* p) {
  p->Plain("is it linked, or its lease at an end?", [this](View& v) {
    const bool no = v[linked_] != 0 || (rules_.heed_ended && v[ended_] != 0);
    v.reg(kSaw) = no ? 1 : 0;
  });
}

// In steps of one access, as somebody without the lock would do it.
void QueueModel::Link(Program* p) {
  p->Plain("link it", [this](View& v) {
    if (v[linked_] != 0) v.Fail("linked twice");
    v[linked_] = 1;
    v.reg(kLength) = v[length_];
  });
  p->Plain("count it", [this](View& v) {
    v[length_] = static_cast<int8_t>(v.reg(kLength) + 1);
  });
  p->Store(queued_, 1, Order::kRelaxed, "set the flag");
}

void QueueModel::Unlink(Program* p) {
  p->Plain("unlink it", [this](View& v) {
    if (v[linked_] == 0) v.Fail("unlinked twice");
    v[linked_] = 0;
    v.reg(kLength) = v[length_];
  });
  p->Plain("count it out", [this](View& v) {
    v[length_] = static_cast<int8_t>(v.reg(kLength) - 1);
  });
}

void QueueModel::Drop(Program* p) {
  const std::string label = "kept" + std::to_string(p->steps().size());
  p->AddGet(kCount, references_, -1, Order::kAcqRel, "drop a reference")
      .If([](const Regs& r) { return r[kCount] != 1; }, label)
      .Plain("free the extent",
             [this](View& v) {
               if (v[freed_] != 0) v.Fail("freed twice");
               v[freed_] = 1;
             })
      .Label(label);
}

void QueueModel::AddReleaser(int i) {
  Program p("releaser " + std::to_string(i + 1));
  p.Or(pages_, 1 << i, rules_.note, "note its page")
      .Load(kSaw, queued_, rules_.look, "look at the flag")
      .If([](const Regs& r) { return r[kSaw] != 0; }, "leave");
  if (rules_.lock_to_add) p.Lock(lock_);
  LookAtLink(&p);
  p.If([](const Regs& r) { return r[kSaw] != 0; }, "unlock");
  p.Add(references_, 1, Order::kRelaxed, "take a reference for the queue");
  Link(&p);
  p.Label("unlock");
  if (rules_.lock_to_add) p.Unlock(lock_);
  p.Label("leave");
  Drop(&p);
  model_.Run(std::move(p).Done());
}

void QueueModel::AddScanner() {
  Program p("scanner");
  for (int i = 0; i < scene_.scans; ++i) {
    const std::string end = "end" + std::to_string(i);
    Scan(&p, end);
    p.Label(end);
  }
  model_.Run(std::move(p).Done());
}

void QueueModel::Scan(Program* p, const std::string& end) {
  p->Lock(lock_)
      .Plain("is anything queued?",
             [this](View& v) { v.reg(kSaw) = v[length_]; })
      .If([](const Regs& r) { return r[kSaw] != 0; }, "take" + end)
      .Unlock(lock_)
      .Goto(end)
      .Label("take" + end);
  Unlink(p);
  if (rules_.clear_before_read) {
    p->Store(queued_, 0, rules_.clear, "clear the flag");
  }
  p->Unlock(lock_).Load(kBits, pages_, rules_.read, "read the pages");
  if (!rules_.clear_before_read) {
    p->Store(queued_, 0, rules_.clear, "clear the flag");
  }
  p->Choose(kChoice, 2, "split, or leave it for another time")
      .If([](const Regs& r) { return r[kChoice] == 1; }, "survives" + end)
      .Plain("take the pages",
             [this](View& v) {
               v[taken_] = static_cast<int8_t>(v[taken_] | v.reg(kBits));
             })
      .Goto("drop" + end)
      .Label("survives" + end);
  PutBack(p, end);
  p->Label("drop" + end);
  Drop(p);
}

// The reference becomes the queue's where it is linked.
void QueueModel::PutBack(Program* p, const std::string& end) {
  if (!rules_.reference_last) Drop(p);
  if (rules_.lock_to_put_back) p->Lock(lock_);
  LookAtLink(p);
  p->If([](const Regs& r) { return r[kSaw] != 0; }, "stay" + end);
  if (!rules_.reference_last) {
    p->Add(references_, 1, Order::kRelaxed, "take a reference for the queue");
  }
  Link(p);
  if (rules_.lock_to_put_back) p->Unlock(lock_);
  p->Goto(end).Label("stay" + end);
  if (rules_.lock_to_put_back) p->Unlock(lock_);
  if (!rules_.reference_last) p->Goto(end);
}

void QueueModel::AddRemover() {
  Program p("remover");
  p.Lock(lock_);
  p.Plain("mark the lease's end; is it queued?",
          [this](View& v) {
            v[ended_] = 1;
            v.reg(kSaw) = v[linked_];
          })
      .If([](const Regs& r) { return r[kSaw] != 0; }, "queued")
      .Unlock(lock_)
      .Goto("drop")
      .Label("queued");
  Unlink(&p);
  p.Store(queued_, 0, rules_.clear, "clear the flag");
  p.Unlock(lock_);
  Drop(&p);
  p.Label("drop");
  Drop(&p);
  model_.Run(std::move(p).Done());
}

// The end of a lock arrives after all that was done under it.
std::string QueueModel::WhileUnlocked(const Memory& m) const {
  if (m[lock_] != 0) return "";
  if (m[linked_] != m[length_]) return "the length is wrong";
  if (m[linked_] != m[queued_]) return "the flag is wrong";
  return "";
}

std::string QueueModel::AtEnd(const Memory& m) const {
  if (!scene_.remover && (m[pages_] & ~m[taken_]) != 0 && m[linked_] == 0) {
    return "a released page is forgotten";
  }
  if (m[linked_] != m[length_]) return "the length is wrong";
  if (m[linked_] != m[queued_]) return "the flag is wrong";
  const int lease = scene_.remover ? 0 : 1;
  if (m[references_] != lease + m[linked_]) return "a reference is lost";
  if (m[freed_] != (m[references_] == 0)) return "not freed";
  if (scene_.remover && m[linked_] != 0) {
    return "queued after its lease came back";
  }
  return "";
}

constexpr Machine kAll[] = {Machine::kInOrder, Machine::kStoreBuffers,
                            Machine::kWeak};

TEST(DeferredQueueModel, IsRightInAllOrders) {
  const Scene scenes[] = {
      {.releasers = 1, .queued = true},
      {.releasers = 1, .queued = true, .scans = 2},
      {.releasers = 2, .scans = 1},
      {.releasers = 2, .queued = true},
      {.releasers = 1, .queued = true, .remover = true},
      {.releasers = 2, .queued = true, .scans = 2},
      {.releasers = 3, .queued = true},
      {.releasers = 1, .scans = 2, .remover = true},
      {.releasers = 2, .queued = true, .scans = 1, .remover = true},
      {.releasers = 2, .queued = true, .scans = 2, .remover = true},
      {.releasers = 2, .scans = 0, .remover = true},
  };
  for (const Scene& s : scenes) {
    for (const Machine machine : kAll) {
      const Result result = QueueModel(s, {}).Explore(machine);
      EXPECT_EQ(result.violation, "") << ToString(machine) << "\n"
                                      << result.steps;
      std::printf("%d releasers, %s, %d scans%s, %s: %llu states, %llu ends\n",
                  s.releasers, s.queued ? "queued" : "not queued", s.scans,
                  s.remover ? ", remover" : "", ToString(machine),
                  static_cast<unsigned long long>(result.states),
                  static_cast<unsigned long long>(result.ends));
      EXPECT_GT(result.ends, 1u);
    }
  }
}

// Breaks a rule: `machine` must show one of `what`, and the steps are printed.
void MustFail(const std::string& rule, const Scene& scene, const Rules& rules,
              Machine machine, const std::vector<std::string>& what) {
  const Result result = QueueModel(scene, rules).Explore(machine);
  EXPECT_THAT(what, Contains(result.violation)) << rule << "\n" << result.steps;
  std::printf("%s (%s): %s\n%s\n", rule.c_str(), ToString(machine),
              result.violation.c_str(), result.steps.c_str());
}

// The same is no mistake on `machine`.
void Holds(const Scene& scene, const Rules& rules, Machine machine) {
  EXPECT_EQ(QueueModel(scene, rules).Explore(machine).violation, "");
}

const std::vector<std::string> kForgotten = {"a released page is forgotten"};
constexpr Scene kOneQueued = {.releasers = 1, .queued = true};
constexpr Scene kWithRemover = {
    .releasers = 1, .queued = true, .remover = true};

TEST(DeferredQueueModel, TheFlagMustBeClearedBeforeThePagesAreRead) {
  MustFail("flag cleared late", kOneQueued,
           {.clear_before_read = false, .check_always = false},
           Machine::kInOrder, kForgotten);
  // Before that, the flag does not agree with the link.
  MustFail("flag cleared late", kOneQueued, {.clear_before_read = false},
           Machine::kInOrder, {"the flag is wrong"});
}

TEST(DeferredQueueModel, TheClearingMustBeSeqCst) {
  // In the scanner's store buffer the flag is still set while it reads the
  // pages. The end of the lock does not empty it.
  for (const Machine machine : {Machine::kStoreBuffers, Machine::kWeak}) {
    MustFail("cleared with release", kOneQueued, {.clear = Order::kRelease},
             machine, kForgotten);
  }
}

// The next three only matter where a read-modify-write can be overtaken by a
// later load, or a seq_cst store by a load that is not.
TEST(DeferredQueueModel, TheNoteMustBeSeqCst) {
  MustFail("noted with acq_rel", kOneQueued, {.note = Order::kAcqRel},
           Machine::kWeak, kForgotten);
  Holds(kOneQueued, {.note = Order::kAcqRel}, Machine::kStoreBuffers);
}

TEST(DeferredQueueModel, TheLookMustBeSeqCst) {
  MustFail("looked with acquire", kOneQueued, {.look = Order::kAcquire},
           Machine::kWeak, kForgotten);
  Holds(kOneQueued, {.look = Order::kAcquire}, Machine::kStoreBuffers);
}

TEST(DeferredQueueModel, TheReadMustBeSeqCst) {
  MustFail("read with acquire", kOneQueued, {.read = Order::kAcquire},
           Machine::kWeak, kForgotten);
  Holds(kOneQueued, {.read = Order::kAcquire}, Machine::kStoreBuffers);
}

TEST(DeferredQueueModel, PuttingBackNeedsTheLock) {
  MustFail("put back without the lock", kOneQueued,
           {.lock_to_put_back = false, .check_always = false},
           Machine::kInOrder, {"linked twice"});
}

TEST(DeferredQueueModel, AddingNeedsTheLock) {
  MustFail("added without the lock", {.releasers = 2, .scans = 0},
           {.lock_to_add = false, .check_always = false}, Machine::kInOrder,
           {"linked twice"});
}

TEST(DeferredQueueModel, TheReferenceMustGoLast) {
  MustFail("reference dropped before it was put back", kWithRemover,
           {.reference_last = false}, Machine::kInOrder,
           {"used after it was freed"});
}

TEST(DeferredQueueModel, AnEndedLeaseMustBeMarked) {
  MustFail("put back without regard to the lease's end", kWithRemover,
           {.heed_ended = false}, Machine::kInOrder,
           {"queued after its lease came back"});
}

}  // namespace
}  // namespace hugepool::model
