// lease list, show, release.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/lease_print.h"
#include "client/hpctl/parse.h"
#include "client/hpctl/rpc.h"
#include "client/hpctl/table.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {
namespace {

using google::protobuf::GetEnumDescriptor;

absl::StatusOr<std::vector<v1::Lease>> Leases(const Globals& globals,
                                              const std::string& state_text) {
  v1::LeaseState state = v1::LEASE_STATE_UNSPECIFIED;
  if (!state_text.empty()) {
    HP_ASSIGN_OR_RETURN(state, ParseLeaseState(state_text));
  }
  HP_ASSIGN_OR_RETURN(Daemon daemon, Daemon::At(globals));
  return daemon.AllLeases(state);
}

int List(const Globals& globals, const std::string& state) {
  const auto leases = Leases(globals, state);
  if (!leases.ok()) return Report(globals, leases.status());
  if (globals.json) {
    auto list = nlohmann::ordered_json::array();
    for (const v1::Lease& lease : *leases) list.push_back(ToJson(lease));
    PrintJson(*globals.out, {{"leases", std::move(list)}});
    return kExitOk;
  }
  Table table({"LEASE", "STATE", "LIFETIME", "NAME", "DOMAIN", "UID", "PID",
               "SIZE", "EXTENTS", "AGE"});
  for (const v1::Lease& lease : *leases) {
    table.AddRow(
        {lease.lease_id(),
         EnumName(GetEnumDescriptor<v1::LeaseState>()->FindValueByNumber(
             lease.state())),
         EnumName(GetEnumDescriptor<v1::Lifetime>()->FindValueByNumber(
             lease.lifetime())),
         lease.name(), lease.domain(), absl::StrCat(lease.owner().uid()),
         lease.owner().pid() != 0 ? absl::StrCat(lease.owner().pid()) : "-",
         SizeCell(TotalSize(lease)), absl::StrCat(lease.extents_size()),
         lease.has_created() ? AgeCell(absl::Now() - FromProto(lease.created()))
                             : "-"});
  }
  table.Print(*globals.out);
  return kExitOk;
}

int Show(const Globals& globals, const std::string& id,
         const std::string& name) {
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::GetLeaseRequest request;
  request.set_lease_id(id);
  request.set_name(name);
  v1::GetLeaseResponse response;
  if (absl::Status s =
          daemon->Call(&v1::HugePool::Stub::GetLease, request, &response);
      !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) {
    PrintJson(*globals.out, ToJson(response.lease()));
  } else {
    PrintLease(response.lease(), {}, *globals.out);
  }
  return kExitOk;
}

int Release(const Globals& globals, const std::vector<std::string>& ids,
            const std::string& name) {
  const auto connection = ConnectSession(globals);
  if (!connection.ok()) return Report(globals, connection.status());
  int worst = kExitOk;
  auto list = nlohmann::ordered_json::array();
  const auto note = [&](const std::string& what,
                        const absl::StatusOr<Bytes>& released) {
    if (!released.ok()) {
      worst =
          std::max(worst, Report(globals, Annotate(released.status(), what)));
    } else if (globals.json) {
      list.push_back({{"lease", what}, {"released_bytes", released->value()}});
    } else {
      *globals.out << "released " << what << ": " << *released << "\n";
    }
  };
  for (const std::string& id : ids) note(id, (*connection)->Release(id));
  if (!name.empty()) note(name, (*connection)->ReleaseByName(name));
  if (globals.json) PrintJson(*globals.out, {{"released", std::move(list)}});
  return worst;
}

void AddShow(CLI::App* lease, const Globals* globals, Action* action) {
  auto* show = lease->add_subcommand("show", "one lease with its extents");
  const auto id = std::make_shared<std::string>();
  const auto name = std::make_shared<std::string>();
  auto* which = show->add_option_group("which");
  which->add_option("ID", *id, "id of the lease");
  which->add_option("--name", *name, "name of a named lease");
  which->require_option(1);
  show->callback([=] { *action = [=] { return Show(*globals, *id, *name); }; });
}

}  // namespace

void AddLeaseCommands(CLI::App* app, const Globals* globals, Action* action) {
  auto* lease = app->add_subcommand("lease", "memory that is leased");
  lease->require_subcommand(1);

  auto* list = lease->add_subcommand("list", "all leases you may see");
  const auto state = std::make_shared<std::string>();
  list->add_option("--state", *state,
                   "only granted, held, orphaned or returning ones");
  list->callback([=] { *action = [=] { return List(*globals, *state); }; });

  AddShow(lease, globals, action);

  auto* release = lease->add_subcommand("release", "ends leases");
  const auto ids = std::make_shared<std::vector<std::string>>();
  const auto name = std::make_shared<std::string>();
  auto* which = release->add_option_group("which");
  which->add_option("ID", *ids, "ids of leases");
  which->add_option("--name", *name, "name of a named lease");
  which->require_option(1);
  release->callback(
      [=] { *action = [=] { return Release(*globals, *ids, *name); }; });
}

}  // namespace hugepool::hpctl
