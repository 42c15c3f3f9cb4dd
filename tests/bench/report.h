// What a bench tells: tables for people, one JSON object for programs.
#ifndef HUGEPOOL_TESTS_BENCH_REPORT_H_
#define HUGEPOOL_TESTS_BENCH_REPORT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace hugepool::bench {

// What every bench can be told: --json, and how often to measure.
struct Options {
  bool json = false;
  int rounds = 1;
};
// `--rounds=N`, at least 1; others are left alone.
Options ParseOptions(int argc, char** argv, int rounds);

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
  // How long a job of `gib` GiB took by how many threads (microseconds): a table
  // with the columns of the kernel's ktask, whose figures it is to be compared
  // with: nthread, speedup of the medians, size, least time, standard deviation.
  void Threads(const std::string& key, const std::string& what, double gib,
               const std::map<int, std::vector<double>>& micros);
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
  // A heading, then rows.
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>>
      by_threads_;
  std::vector<OneAim> aims_;
  std::vector<std::string> notes_;
  nlohmann::ordered_json raw_;
};

}  // namespace hugepool::bench

#endif  // HUGEPOOL_TESTS_BENCH_REPORT_H_
