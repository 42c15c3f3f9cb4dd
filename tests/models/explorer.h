// Runs a few small threads through all orders of their steps.
//
// A depth-first search over the states of the machine: memory, and for each
// thread its place, its registers and the writes that it has made and that the
// others do not see yet. Each state is gone into once, so the search is
// exhaustive and ends. What goes wrong is told as the steps that led there.
//
// Three machines:
//
// - kInOrder: every step is seen at once by all.
// - kStoreBuffers (x86, "TSO"): a store waits in its thread's buffer and
// arrives
//   some time, in order; the thread itself sees it at once. Read-modify-writes
//   and seq_cst stores empty the buffer first.
// - kWeak (modelled after Armv8, but weaker): stores, and read-modify-writes
//   whose result nobody asks for, wait and arrive in *any* order that is not
//   forbidden: those to one variable stay in order, a release (or stronger) one
//   comes after all before it, and nothing that follows an acquiring one
//   overtakes it. Only a seq_cst load waits, for the seq_cst writes before it.
//   Not modelled: loads that are done early (before an earlier load), and
//   writes that some see before others.
//
// Locks: taking one is an acquire, giving it back a release, and no more: what
// is written before the end may arrive with it, and a load after it may come
// before. Plain memory is seen at once: what is accessed under a lock only has
// no races, and then no machine shows a difference; what is accessed outside
// goes wrong already when it is seen at once.
#ifndef HUGEPOOL_TESTS_MODELS_EXPLORER_H_
#define HUGEPOOL_TESTS_MODELS_EXPLORER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/models/program.h"

namespace hugepool::model {

enum class Machine : uint8_t { kInOrder, kStoreBuffers, kWeak };
const char* ToString(Machine machine);

class Model {
 public:
  Model() { freed_.fill(-1); }
  // A variable that begins with `value`. `freed`: the variable that says that
  // the object it is part of was freed; then nobody may touch it.
  Var Add(std::string name, int value, Var freed = -1);
  void Run(Program program) { programs_.push_back(std::move(program)); }

  // What must hold in every state, and at the end, when all threads are through
  // and all writes have arrived. They answer with what is wrong, or nothing.
  std::function<std::string(const Memory&)> always;
  std::function<std::string(const Memory&)> at_end;

  const std::vector<Program>& programs() const { return programs_; }
  const Memory& start() const { return start_; }
  const std::array<Var, kVars>& freed() const { return freed_; }
  const std::string& name(Var var) const { return names_[var]; }

 private:
  Memory start_{};
  std::array<Var, kVars> freed_;
  std::vector<std::string> names_;
  std::vector<Program> programs_;
};

struct Result {
  // Empty: all is well in all orders.
  std::string violation;
  // The steps that lead to it, one a line.
  std::string steps;
  uint64_t states = 0;
  // Different states at the end of all threads.
  uint64_t ends = 0;
};

Result Explore(const Model& model, Machine machine);

}  // namespace hugepool::model

#endif  // HUGEPOOL_TESTS_MODELS_EXPLORER_H_
