#include "tests/bench/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "deploy/quickstart/measure.h"

namespace hugepool::bench {
namespace {

// Four significant digits, without an exponent.
std::string Number(double value) {
  if (value == 0) return "0";
  const int magnitude =
      static_cast<int>(std::floor(std::log10(std::fabs(value))));
  const int decimals = std::clamp(3 - magnitude, 0, 6);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string Pad(const std::string& text, size_t width, bool right) {
  if (text.size() >= width) return text;
  const std::string fill(width - text.size(), ' ');
  return right ? fill + text : text + fill;
}

// Columns as wide as their widest cell; all but the first and last to the
// right.
void PrintTable(std::ostream& out,
                const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      out << (i == 0 ? "" : "  ")
          << (last ? row[i] : Pad(row[i], widths[i], i != 0));
    }
    out << '\n';
  }
}

}  // namespace

Options ParseOptions(int argc, char** argv, int rounds) {
  Options options = {.rounds = rounds};
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) options.json = true;
    if (std::strncmp(argv[i], "--rounds=", 9) == 0) {
      options.rounds = std::max(1, std::atoi(argv[i] + 9));
    }
  }
  return options;
}

void Report::Series(const std::string& key, const std::string& what,
                    const std::string& unit,
                    const std::vector<double>& values) {
  const double median = measure::Median(values);
  const double p10 = measure::Quantile(values, 0.10);
  const double p90 = measure::Quantile(values, 0.90);
  const double p99 = measure::Quantile(values, 0.99);
  rows_.push_back({what, unit, Number(median), Number(p10), Number(p90),
                   std::to_string(values.size())});
  raw_[key] = {{"unit", unit}, {"median", median}, {"p10", p10},
               {"p90", p90},   {"p99", p99},       {"count", values.size()}};
}

void Report::Figure(const std::string& key, const std::string& what,
                    const std::string& unit, double value) {
  rows_.push_back({what, unit, Number(value), "", "", ""});
  raw_[key] = value;
}

void Report::Threads(const std::string& key, const std::string& what,
                     double gib,
                     const std::map<int, std::vector<double>>& micros) {
  std::vector<std::vector<std::string>> table = {
      {"nthread", "speedup", "size (GiB)", "min time (s)", "stdev", "GB/s"}};
  const double first = measure::Median(micros.begin()->second);
  for (const auto& [threads, values] : micros) {
    const double median = measure::Median(values);
    const double least = *std::min_element(values.begin(), values.end());
    double mean = 0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    double variance = 0;
    for (const double v : values) {
      variance += (v - mean) * (v - mean) / static_cast<double>(values.size());
    }
    const double rate = gib * 1.073741824e9 / (median / 1e6) / 1e9;
    table.push_back({std::to_string(threads), Number(first / median) + "x",
                     Number(gib), Number(least / 1e6),
                     Number(std::sqrt(variance) / 1e6), Number(rate)});
    raw_[key][std::to_string(threads)] = {
        {"unit", "us"},        {"median", median},
        {"min", least},        {"stdev", std::sqrt(variance)},
        {"GB_per_s", rate},    {"speedup", first / median},
        {"count", values.size()}};
  }
  by_threads_.emplace_back(what, std::move(table));
}

void Report::Aim(const std::string& what, double value, Goal goal, double aim) {
  const bool met = goal == Goal::kAtLeast ? value >= aim : value <= aim;
  aims_.push_back({what, value, goal, aim, met});
}

bool Report::AllMet() const {
  return std::all_of(aims_.begin(), aims_.end(),
                     [](const OneAim& a) { return a.met; });
}

nlohmann::ordered_json Report::ToJson() const {
  nlohmann::ordered_json json;
  json["name"] = name_;
  json["aims"] = nlohmann::ordered_json::array();
  for (const OneAim& a : aims_) {
    json["aims"].push_back(
        {{"what", a.what},
         {"value", a.value},
         {"aim", a.aim},
         {"goal", a.goal == Goal::kAtLeast ? "at least" : "at most"},
         {"met", a.met}});
  }
  json["notes"] = notes_;
  if (!raw_.is_null()) json.update(raw_);
  return json;
}

void Report::Print(std::ostream& out, bool json) const {
  out << name_ << ": " << what_ << "\n\n";
  for (const auto& [what, rows] : by_threads_) {
    out << what << '\n';
    PrintTable(out, rows);
    out << '\n';
  }
  std::vector<std::vector<std::string>> table = {
      {"", "median", "p10", "p90", "times", "unit"}};
  for (const Row& r : rows_) {
    table.push_back({r.what, r.median, r.low, r.high, r.count, r.unit});
  }
  PrintTable(out, table);
  if (!aims_.empty()) {
    out << '\n';
    table = {{"aim", "value", "wanted", ""}};
    for (const OneAim& a : aims_) {
      table.push_back(
          {a.what, Number(a.value),
           (a.goal == Goal::kAtLeast ? ">= " : "<= ") + Number(a.aim),
           a.met ? "met" : "NOT met"});
    }
    PrintTable(out, table);
  }
  for (const std::string& note : notes_) out << "note: " << note << '\n';
  if (json) out << ToJson().dump() << '\n';
  out.flush();
}

}  // namespace hugepool::bench
