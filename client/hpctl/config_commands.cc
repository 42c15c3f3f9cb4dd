// config check, show, tune, reload.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/hpctl/check_config.h"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/rpc.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {
namespace {

int Check(const Globals& globals, const std::string& path) {
  const auto yaml = CheckConfigFile(path);
  if (globals.json) {
    auto errors = nlohmann::ordered_json::array();
    if (!yaml.ok()) {
      const std::vector<std::string> lines =
          absl::StrSplit(yaml.status().message(), '\n', absl::SkipEmpty());
      for (const std::string& line : lines) errors.push_back(line);
    }
    PrintJson(*globals.out,
              {{"file", path}, {"ok", yaml.ok()}, {"errors", errors}});
  } else if (yaml.ok()) {
    *globals.out << path << ": good\n";
  } else {
    // As a compiler would: the lines begin with file and line.
    *globals.err << yaml.status().message() << "\n";
  }
  if (yaml.ok()) return kExitOk;
  // A file that is wrong is no wrong use of hpctl.
  return absl::IsInvalidArgument(yaml.status()) ? kExitFailed
                                                : ExitCodeOf(yaml.status());
}

int Show(const Globals& globals) {
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::GetConfigResponse response;
  if (absl::Status s = daemon->CallAdmin(&v1::HugePoolAdmin::Stub::GetConfig,
                                         v1::GetConfigRequest(), &response);
      !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) {
    PrintJson(*globals.out, ToJson(response));
  } else {
    *globals.out << response.yaml();
  }
  return kExitOk;
}

int Reload(const Globals& globals) {
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::ReloadConfigResponse response;
  if (absl::Status s = daemon->CallAdmin(&v1::HugePoolAdmin::Stub::ReloadConfig,
                                         v1::ReloadConfigRequest(), &response);
      !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) PrintJson(*globals.out, ToJson(response));
  for (const std::string& error : response.errors()) {
    *globals.err << error << "\n";
  }
  return response.errors().empty() ? kExitOk : kExitFailed;
}

// "8GiB/s", "8G", "none".
absl::Status ParseBandwidth(std::string text, v1::SetTuningRequest* request) {
  if (text == "none") {
    request->set_no_cap(true);
    return absl::OkStatus();
  }
  if (absl::EndsWith(text, "/s")) text.resize(text.size() - 2);
  HP_ASSIGN_OR_RETURN(const Bytes size, ParseBytes(text));
  request->set_bandwidth_gb_per_second(static_cast<double>(size.value()) / 1e9);
  return absl::OkStatus();
}

// "10%", "10", "off".
absl::Status ParsePressureLimit(absl::string_view text,
                                v1::SetTuningRequest* request) {
  if (text == "off") {
    request->set_no_pressure_limit(true);
    return absl::OkStatus();
  }
  uint32_t percent = 0;
  absl::ConsumeSuffix(&text, "%");
  if (!absl::SimpleAtoi(text, &percent) || percent < 1 || percent > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a share, write 1% to 100%, or off"));
  }
  request->set_pressure_limit_percent(percent);
  return absl::OkStatus();
}

// As they stand on the command line; empty: not given.
struct Tuning {
  std::string bandwidth;
  std::string pressure_limit;
};

int Tune(const Globals& globals, const Tuning& tuning) {
  v1::SetTuningRequest request;
  if (!tuning.bandwidth.empty()) {
    if (absl::Status s = ParseBandwidth(tuning.bandwidth, &request); !s.ok()) {
      return Report(globals, Annotate(s, "--bandwidth"));
    }
  }
  if (!tuning.pressure_limit.empty()) {
    if (absl::Status s = ParsePressureLimit(tuning.pressure_limit, &request);
        !s.ok()) {
      return Report(globals, Annotate(s, "--pressure-limit"));
    }
  }
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::SetTuningResponse response;
  if (absl::Status s = daemon->CallAdmin(&v1::HugePoolAdmin::Stub::SetTuning,
                                         request, &response);
      !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) PrintJson(*globals.out, ToJson(response));
  return kExitOk;
}

}  // namespace

void AddConfigCommands(CLI::App* app, const Globals* globals, Action* action) {
  auto* config = app->add_subcommand("config", "the daemon's configuration");
  config->require_subcommand(1);
  auto* check = config->add_subcommand("check", "whether a file is right");
  const auto path = std::make_shared<std::string>();
  check->add_option("FILE", *path, "the configuration file")->required();
  check->callback([=] { *action = [=] { return Check(*globals, *path); }; });
  config->add_subcommand("show", "what is in force, defaults included")
      ->callback([=] { *action = [=] { return Show(*globals); }; });
  auto* tune = config->add_subcommand(
      "tune", "changes what can be changed while it runs (admin)");
  const auto tuning = std::make_shared<Tuning>();
  tune->add_option("--bandwidth", tuning->bandwidth,
                   "cap of background zeroing on each node, e.g. 8GiB/s; none");
  tune->add_option(
      "--pressure-limit", tuning->pressure_limit,
      "of others' pressure (PSI): above it background zeroing backs "
      "off, e.g. 10%; off");
  tune->require_option(1, 2);
  tune->callback([=] { *action = [=] { return Tune(*globals, *tuning); }; });
  config->add_subcommand("reload", "has the daemon read its file again (admin)")
      ->callback([=] { *action = [=] { return Reload(*globals); }; });
}

}  // namespace hugepool::hpctl
