// A thread of a model: its steps, as a program would make them.
#ifndef HUGEPOOL_TESTS_MODELS_PROGRAM_H_
#define HUGEPOOL_TESTS_MODELS_PROGRAM_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hugepool::model {

inline constexpr int kVars = 16;
inline constexpr int kRegs = 8;
using Var = int;  // below kVars
using Reg = int;  // below kRegs
using Memory = std::array<int8_t, kVars>;
using Regs = std::array<int8_t, kRegs>;

enum class Order : uint8_t { kRelaxed, kAcquire, kRelease, kAcqRel, kSeqCst };
const char* ToString(Order order);

// What a step sees that touches plain (not atomic) memory.
class View {
 public:
  View(Memory* memory, Regs* regs, const std::array<Var, kVars>* freed,
       std::string* fault)
      : memory_(memory), regs_(regs), freed_(freed), fault_(fault) {}
  // Checks that the object it belongs to is there.
  int8_t& operator[](Var var);
  int8_t& reg(Reg r) { return (*regs_)[r]; }
  // The model was violated.
  void Fail(const std::string& what) {
    if (fault_->empty()) *fault_ = what;
  }

 private:
  Memory* const memory_;
  Regs* const regs_;
  const std::array<Var, kVars>* const freed_;
  std::string* const fault_;
};

struct Step {
  enum class Kind : uint8_t {
    kLoad,    // reg = var
    kStore,   // var = value
    kAdd,     // var += value, and nobody asks what it was
    kOr,      // var |= value
    kSwap,    // var = value, by an exchange
    kAddGet,  // reg = what var was; var += value
    kLock,
    kUnlock,
    kPlain,   // `run`
    kChoose,  // reg = any of 0 to value - 1
    kIf,      // to `target` where `test` says so; no step of its own
  };
  Kind kind;
  std::string text;
  Var var = 0;
  Reg reg = 0;
  int8_t value = 0;
  Order order = Order::kRelaxed;
  std::function<void(View&)> run;
  std::function<bool(const Regs&)> test;
  std::string target;
  int target_at = -1;
};

class Program {
 public:
  explicit Program(std::string name) : name_(std::move(name)) {}

  // Atomics. `text` says what the step is for.
  Program& Load(Reg reg, Var var, Order order, std::string text);
  Program& Store(Var var, int value, Order order, std::string text);
  Program& Add(Var var, int value, Order order, std::string text);
  Program& Or(Var var, int value, Order order, std::string text);
  Program& Swap(Var var, int value, Order order, std::string text);
  Program& AddGet(Reg reg, Var var, int value, Order order, std::string text);

  Program& Lock(Var mutex);
  Program& Unlock(Var mutex);
  // Plain memory, all at once. What must not be at once is more than one step.
  Program& Plain(std::string text, std::function<void(View&)> run);
  Program& Choose(Reg reg, int among, std::string text);

  Program& If(std::function<bool(const Regs&)> test, std::string label);
  Program& Goto(std::string label);
  Program& Label(std::string label);

  // Resolves the labels. To be called last.
  Program Done() &&;

  const std::string& name() const { return name_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  Program& Push(Step step);

  std::string name_;
  std::vector<Step> steps_;
  std::vector<std::pair<std::string, int>> labels_;
};

}  // namespace hugepool::model

#endif  // HUGEPOOL_TESTS_MODELS_PROGRAM_H_
