// pool list.
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/pool_table.h"
#include "client/hpctl/rpc.h"

namespace hugepool::hpctl {
namespace {

int List(const Globals& globals) {
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::GetStatusResponse status;
  if (absl::Status s = daemon->Call(&v1::HugePool::Stub::GetStatus,
                                    v1::GetStatusRequest(), &status);
      !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) {
    PrintJson(*globals.out, {{"pools", ToJson(status)["pools"]}});
    return kExitOk;
  }
  PrintPools(status.pools(), /*wide=*/true, *globals.out);
  return kExitOk;
}

}  // namespace

void AddPoolCommands(CLI::App* app, const Globals* globals, Action* action) {
  auto* pool = app->add_subcommand("pool", "the pools of huge pages");
  pool->require_subcommand(1);
  pool->add_subcommand("list", "what each pool holds, and its use over time")
      ->callback([=] { *action = [=] { return List(*globals); }; });
}

}  // namespace hugepool::hpctl
