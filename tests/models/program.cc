#include "tests/models/program.h"

#include <cstdio>
#include <cstdlib>

namespace hugepool::model {

const char* ToString(Order order) {
  switch (order) {
    case Order::kRelaxed:
      return "relaxed";
    case Order::kAcquire:
      return "acquire";
    case Order::kRelease:
      return "release";
    case Order::kAcqRel:
      return "acq_rel";
    case Order::kSeqCst:
      return "seq_cst";
  }
  return "?";
}

int8_t& View::operator[](Var var) {
  const Var freed = (*freed_)[var];
  if (freed >= 0 && (*memory_)[freed] != 0) Fail("used after it was freed");
  return (*memory_)[var];
}

Program& Program::Push(Step step) {
  steps_.push_back(std::move(step));
  return *this;
}

Program& Program::Load(Reg reg, Var var, Order order, std::string text) {
  return Push({.kind = Step::Kind::kLoad,
               .text = std::move(text),
               .var = var,
               .reg = reg,
               .order = order});
}

Program& Program::Store(Var var, int value, Order order, std::string text) {
  return Push({.kind = Step::Kind::kStore,
               .text = std::move(text),
               .var = var,
               .value = static_cast<int8_t>(value),
               .order = order});
}

Program& Program::Add(Var var, int value, Order order, std::string text) {
  return Push({.kind = Step::Kind::kAdd,
               .text = std::move(text),
               .var = var,
               .value = static_cast<int8_t>(value),
               .order = order});
}

Program& Program::Or(Var var, int value, Order order, std::string text) {
  return Push({.kind = Step::Kind::kOr,
               .text = std::move(text),
               .var = var,
               .value = static_cast<int8_t>(value),
               .order = order});
}

Program& Program::Swap(Var var, int value, Order order, std::string text) {
  return Push({.kind = Step::Kind::kSwap,
               .text = std::move(text),
               .var = var,
               .value = static_cast<int8_t>(value),
               .order = order});
}

Program& Program::AddGet(Reg reg, Var var, int value, Order order,
                         std::string text) {
  return Push({.kind = Step::Kind::kAddGet,
               .text = std::move(text),
               .var = var,
               .reg = reg,
               .value = static_cast<int8_t>(value),
               .order = order});
}

Program& Program::Lock(Var mutex) {
  return Push({.kind = Step::Kind::kLock,
               .text = "lock",
               .var = mutex,
               .order = Order::kAcquire});
}

Program& Program::Unlock(Var mutex) {
  return Push({.kind = Step::Kind::kUnlock,
               .text = "unlock",
               .var = mutex,
               .order = Order::kRelease});
}

Program& Program::Plain(std::string text, std::function<void(View&)> run) {
  return Push({.kind = Step::Kind::kPlain,
               .text = std::move(text),
               .run = std::move(run)});
}

Program& Program::Choose(Reg reg, int among, std::string text) {
  return Push({.kind = Step::Kind::kChoose,
               .text = std::move(text),
               .reg = reg,
               .value = static_cast<int8_t>(among)});
}

Program& Program::If(std::function<bool(const Regs&)> test, std::string label) {
  return Push({.kind = Step::Kind::kIf,
               .test = std::move(test),
               .target = std::move(label)});
}

Program& Program::Goto(std::string label) {
  return If([](const Regs&) { return true; }, std::move(label));
}

Program& Program::Label(std::string label) {
  labels_.emplace_back(std::move(label), static_cast<int>(steps_.size()));
  return *this;
}

Program Program::Done() && {
  for (Step& step : steps_) {
    if (step.kind != Step::Kind::kIf) continue;
    for (const auto& [label, at] : labels_) {
      if (label == step.target) step.target_at = at;
    }
    if (step.target_at < 0) {
      std::fprintf(stderr, "%s: no label %s\n", name_.c_str(),
                   step.target.c_str());
      std::abort();
    }
  }
  return std::move(*this);
}

}  // namespace hugepool::model
