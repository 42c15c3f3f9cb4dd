// What a bench tells: tables for people, one JSON object for programs.
#ifndef HUGEPOOL_TESTS_BENCH_REPORT_H_
#define HUGEPOOL_TESTS_BENCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace hugepool::bench {

enum class Goal { kAtLeast, kAtMost };

class Report {
 public:
  // `what`: what is compared with what, and how, in a sentence or two.
  Report(std::string name, std::string what)
      : name_(std::move(name)), what_(std::move(what)) {}

  // A series of measurements; its median, spread and count are told. In the
  // JSON it is an object called `key`.
  void Series(const std::string& key, const std::string& what,
              const std::string& unit, const std::vector<double>& values);
  // A single figure.
  void Figure(const std::string& key, const std::string& what,
              const std::string& unit, double value);
  // What the project wants to reach, a ratio of this run.
  void Aim(const std::string& what, double value, Goal goal, double aim);
  // Something a reader of the figures must know.
  void Note(const std::string& text) { notes_.push_back(text); }

  bool AllMet() const;
  // The tables, and with `json` the object, alone on the last line:
  //   {"name":…,"aims":[{"what":…,"value":…,"aim":…,"met":…}],"notes":[…],…}
  void Print(std::ostream& out, bool json) const;

 private:
  struct Row {
    std::string what, unit, median, low, high, count;
  };
  struct OneAim {
    std::string what;
    double value;
    Goal goal;
    double aim;
    bool met;
  };
  nlohmann::ordered_json ToJson() const;

  const std::string name_;
  const std::string what_;
  std::vector<Row> rows_;
  std::vector<OneAim> aims_;
  std::vector<std::string> notes_;
  nlohmann::ordered_json raw_;
};

}  // namespace hugepool::bench

#endif  // HUGEPOOL_TESTS_BENCH_REPORT_H_
