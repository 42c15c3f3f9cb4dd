#include "tests/models/explorer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace hugepool::model {
namespace {

using Kind = Step::Kind;

constexpr int kThreads = 4;
constexpr int kBuffer = 10;

// A write that has not arrived.
struct Write {
  uint8_t step = 0;  // of the thread's program
};

struct ThreadState {
  uint8_t at = 0;
  uint8_t writes = 0;
  Regs regs{};
  std::array<Write, kBuffer> buffer{};
};

struct State {
  Memory memory{};
  std::array<ThreadState, kThreads> threads{};
};
// So that its bytes can be compared.
static_assert(std::has_unique_object_representations_v<State>);

bool Releases(Order o) {
  return o == Order::kRelease || o == Order::kAcqRel || o == Order::kSeqCst;
}
bool ReadsAndWrites(Kind kind) {
  return kind == Kind::kAdd || kind == Kind::kOr || kind == Kind::kSwap;
}
// Whether nothing that follows may arrive before it.
bool HoldsBack(const Step& s) {
  return ReadsAndWrites(s.kind) &&
         (s.order == Order::kAcquire || s.order == Order::kAcqRel ||
          s.order == Order::kSeqCst);
}

class Search {
 public:
  Search(const Model& model, Machine machine)
      : model_(model), machine_(machine) {}

  Result Run() {
    if (model_.programs().size() > kThreads) Abort("too many threads");
    State state;
    state.memory = model_.start();
    const int threads = static_cast<int>(model_.programs().size());
    for (int t = 0; t < threads; ++t) Branch(&state, t);
    Visit(state);
    if (!result_.violation.empty()) {
      for (const std::string& line : path_) {
        absl::StrAppend(&result_.steps, line, "\n");
      }
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] static void Abort(const char* what) {
    std::fprintf(stderr, "model: %s\n", what);
    std::abort();
  }
  const Step& At(int t, int at) const {
    return model_.programs()[t].steps()[at];
  }
  bool Over(const State& s, int t) const {
    return s.threads[t].at == model_.programs()[t].steps().size();
  }
  const Step& Waiting(const State& s, int t, int i) const {
    return At(t, s.threads[t].buffer[i].step);
  }

  void Visit(const State& s);
  void Go(State next, std::string line);
  // What thread `t` can do next, and the arrival of its writes.
  bool TryStep(const State& s, int t);
  bool TryArrivals(const State& s, int t);
  bool MayRun(const State& s, int t, const Step& step) const;
  bool MayArrive(const State& s, int t, int i) const;
  void Execute(State* s, int t, const Step& step, std::string* note);
  int Load(const State& s, int t, const Step& step) const;
  void Apply(Memory* memory, const Step& step);
  void Branch(State* s, int t) const;
  void Touch(const Memory& memory, Var var);

  const Model& model_;
  const Machine machine_;
  absl::flat_hash_set<std::string> seen_;
  std::vector<std::string> path_;
  std::string fault_;
  Result result_;
};

void Search::Touch(const Memory& memory, Var var) {
  const Var freed = model_.freed()[var];
  if (freed >= 0 && memory[freed] != 0 && fault_.empty()) {
    fault_ = absl::StrCat(model_.name(var), " used after it was freed");
  }
}

// Goes on to the next real step.
void Search::Branch(State* s, int t) const {
  ThreadState& thread = s->threads[t];
  while (!Over(*s, t)) {
    const Step& step = At(t, thread.at);
    if (step.kind != Kind::kIf) return;
    thread.at = static_cast<uint8_t>(step.test(thread.regs) ? step.target_at
                                                            : thread.at + 1);
  }
}

bool Search::MayArrive(const State& s, int t, int i) const {
  if (i == 0) return true;
  if (machine_ != Machine::kWeak) return false;
  const Step& write = Waiting(s, t, i);
  if (Releases(write.order)) return false;
  for (int j = 0; j < i; ++j) {
    const Step& before = Waiting(s, t, j);
    if (before.var == write.var || HoldsBack(before)) return false;
  }
  return true;
}

bool Search::MayRun(const State& s, int t, const Step& step) const {
  const ThreadState& thread = s.threads[t];
  const bool empty = thread.writes == 0;
  const bool weak = machine_ == Machine::kWeak;
  switch (step.kind) {
    case Kind::kStore:
      return weak || empty || step.order != Order::kSeqCst;
    case Kind::kAdd:
    case Kind::kOr:
    case Kind::kSwap:
      return weak || empty;
    case Kind::kAddGet:
      return empty;
    case Kind::kLock:
      return s.memory[step.var] == 0 && (weak || empty);
    case Kind::kLoad:
      for (int i = 0; i < thread.writes; ++i) {
        const Step& write = Waiting(s, t, i);
        if (step.order == Order::kSeqCst && write.order == Order::kSeqCst) {
          return false;
        }
        // It would have to know the result.
        if (write.var == step.var && ReadsAndWrites(write.kind)) return false;
      }
      return true;
    default:
      return true;
  }
}

int Search::Load(const State& s, int t, const Step& step) const {
  for (int i = s.threads[t].writes - 1; i >= 0; --i) {
    const Step& write = Waiting(s, t, i);
    if (write.var == step.var) return write.value;
  }
  return s.memory[step.var];
}

void Search::Apply(Memory* memory, const Step& step) {
  Touch(*memory, step.var);
  int8_t& var = (*memory)[step.var];
  switch (step.kind) {
    case Kind::kAdd:
    case Kind::kAddGet:
      var = static_cast<int8_t>(var + step.value);
      return;
    case Kind::kOr:
      var = static_cast<int8_t>(var | step.value);
      return;
    default:  // a store, an exchange, or the end of a lock
      var = step.value;
      return;
  }
}

void Search::Execute(State* s, int t, const Step& step, std::string* note) {
  ThreadState& thread = s->threads[t];
  const auto at = thread.at++;
  const auto name = [&] { return model_.name(step.var); };
  switch (step.kind) {
    case Kind::kLoad:
      Touch(s->memory, step.var);
      thread.regs[step.reg] = static_cast<int8_t>(Load(*s, t, step));
      *note = absl::StrCat(" [", name(), " is ", thread.regs[step.reg], "]");
      return;
    case Kind::kAddGet:
      thread.regs[step.reg] = s->memory[step.var];
      Apply(&s->memory, step);
      *note = absl::StrCat(" [", name(), " was ", thread.regs[step.reg], "]");
      return;
    case Kind::kLock:
      s->memory[step.var] = 1;
      return;
    case Kind::kPlain: {
      View view(&s->memory, &thread.regs, &model_.freed(), &fault_);
      step.run(view);
      return;
    }
    default:
      break;
  }
  // A write. On x86, read-modify-writes and seq_cst stores arrive at once.
  const bool waits =
      machine_ == Machine::kWeak ||
      (machine_ == Machine::kStoreBuffers && !ReadsAndWrites(step.kind) &&
       step.order != Order::kSeqCst);
  if (!waits) {
    Apply(&s->memory, step);
    *note = absl::StrCat(" [", name(), " becomes ", s->memory[step.var], "]");
    return;
  }
  if (thread.writes == kBuffer) Abort("too many writes under way");
  thread.buffer[thread.writes++] = {at};
  *note = absl::StrCat(" [", name(), ", under way]");
}

void Search::Go(State next, std::string line) {
  path_.push_back(std::move(line));
  if (fault_.empty() && model_.always) fault_ = model_.always(next.memory);
  if (!fault_.empty()) {
    result_.violation = fault_;
    return;
  }
  Visit(next);
  if (result_.violation.empty()) path_.pop_back();
}

bool Search::TryStep(const State& s, int t) {
  if (Over(s, t)) return false;
  const Step& step = At(t, s.threads[t].at);
  if (!MayRun(s, t, step)) return false;
  const std::string line =
      absl::StrCat(model_.programs()[t].name(), ": ", step.text);
  if (step.kind == Kind::kChoose) {
    for (int8_t i = 0; i < step.value && result_.violation.empty(); ++i) {
      State next = s;
      next.threads[t].regs[step.reg] = i;
      ++next.threads[t].at;
      Branch(&next, t);
      Go(next, absl::StrCat(line, " [", i, "]"));
    }
    return true;
  }
  State next = s;
  std::string note;
  Execute(&next, t, step, &note);
  Branch(&next, t);
  Go(next, absl::StrCat(line, note));
  return true;
}

bool Search::TryArrivals(const State& s, int t) {
  bool any = false;
  for (int i = 0; i < s.threads[t].writes && result_.violation.empty(); ++i) {
    if (!MayArrive(s, t, i)) continue;
    any = true;
    State next = s;
    ThreadState& thread = next.threads[t];
    const Step& write = Waiting(s, t, i);
    for (int j = i; j + 1 < thread.writes; ++j) {
      thread.buffer[j] = thread.buffer[j + 1];
    }
    thread.buffer[--thread.writes] = {};
    Apply(&next.memory, write);
    Go(next, absl::StrCat("    (", model_.programs()[t].name(), "'s \"",
                          write.text, "\" arrives: ", model_.name(write.var),
                          " is ", next.memory[write.var], ")"));
  }
  return any;
}

void Search::Visit(const State& s) {
  if (!seen_.insert(std::string(reinterpret_cast<const char*>(&s), sizeof s))
           .second) {
    return;
  }
  ++result_.states;
  bool any = false;
  bool over = true;
  const int threads = static_cast<int>(model_.programs().size());
  for (int t = 0; t < threads; ++t) {
    over = over && Over(s, t) && s.threads[t].writes == 0;
    any |= TryStep(s, t);
    if (!result_.violation.empty()) return;
    any |= TryArrivals(s, t);
    if (!result_.violation.empty()) return;
  }
  if (over) {
    ++result_.ends;
    if (model_.at_end) result_.violation = model_.at_end(s.memory);
  } else if (!any) {
    result_.violation = "no thread can go on";
  }
}

}  // namespace

const char* ToString(Machine machine) {
  switch (machine) {
    case Machine::kInOrder:
      return "in order";
    case Machine::kStoreBuffers:
      return "store buffers";
    case Machine::kWeak:
      return "weak";
  }
  return "?";
}

Var Model::Add(std::string name, int value, Var freed) {
  const Var var = static_cast<Var>(names_.size());
  if (var == kVars) std::abort();
  names_.push_back(std::move(name));
  start_[var] = static_cast<int8_t>(value);
  freed_[var] = freed;
  return var;
}

Result Explore(const Model& model, Machine machine) {
  return Search(model, machine).Run();
}

}  // namespace hugepool::model
