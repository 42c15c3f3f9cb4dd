#include "client/hpctl/hpctl.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/globals.h"

namespace hugepool::hpctl {
namespace {

constexpr char kDefaultSocketDir[] = "/run/hugepool";
constexpr char kFooter[] =
    "Sizes: K, M and G are powers of 1024. NODES: 0, 0-3, 0,2 or local.\n"
    "Exit codes: 0 done, 1 failed, 2 usage, 3 no daemon, 4 too little memory,\n"
    "5 denied, 6 wait expired, 7 not found; run: 125-127, else the command's.";

// CLI11 reports by exceptions; they end here.
int Parse(CLI::App* app, std::vector<std::string> args, bool is_run,
          const Globals& globals) {
  try {
    std::reverse(args.begin(), args.end());  // as CLI11 wants them
    app->parse(std::move(args));
    return kExitOk;
  } catch (const CLI::Success& help) {
    app->exit(help, *globals.out, *globals.err);
    return -1;
  } catch (const CLI::ParseError& error) {
    app->exit(error, *globals.out, *globals.err);
    return is_run ? kExitRunFailed : kExitUsage;
  }
}

}  // namespace

int RunHpctl(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err) {
  // What stands behind the first "--" is a command and none of ours.
  const auto dashes = std::find(args.begin(), args.end(), "--");
  const std::vector<std::string> own(args.begin(), dashes);
  std::vector<std::string> command;
  if (dashes != args.end()) command.assign(dashes + 1, args.end());

  Globals globals;
  globals.out = &out;
  globals.err = &err;
  const char* dir = std::getenv("HUGEPOOL_SOCKET_DIR");
  globals.socket_dir = dir != nullptr && *dir != '\0' ? dir : kDefaultSocketDir;
  std::string format = "table";
  Action action;

  CLI::App app("Shows and uses the huge pages that hugepoold keeps.", "hpctl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--socket", globals.socket_dir,
                 "directory of the daemon's sockets ($HUGEPOOL_SOCKET_DIR or " +
                     std::string(kDefaultSocketDir) + ")");
  app.add_option("-o,--output", format, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  AddStatusCommands(&app, &globals, &action);
  AddEventCommands(&app, &globals, &action);
  AddLeaseCommands(&app, &globals, &action);
  AddPoolCommands(&app, &globals, &action);
  AddConfigCommands(&app, &globals, &action);
  AddAcquireCommand(&app, &globals, &action);
  AddRunCommand(&app, &globals, &command, &action);

  const bool is_run = std::find(own.begin(), own.end(), "run") != own.end();
  if (const int code = Parse(&app, own, is_run, globals); code != kExitOk) {
    return code < 0 ? kExitOk : code;
  }
  globals.json = format == "json";
  if (!command.empty() && !app.got_subcommand("run")) {
    err << "hpctl: only run takes a command behind --\n";
    return kExitUsage;
  }
  return action ? action() : kExitUsage;
}

}  // namespace hugepool::hpctl
