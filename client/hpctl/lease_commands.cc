// lease list, show, release, revoke.
#include <algorithm>
#include <functional>
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

using ReleaseOne =
    std::function<absl::StatusOr<Bytes>(const v1::ReleaseRequest& request)>;

// An admin releases through admin.sock; others need a session, as the daemon
// must know them.
absl::StatusOr<ReleaseOne> Releaser(const Globals& globals) {
  HP_ASSIGN_OR_RETURN(Daemon opened, Daemon::At(globals));
  const auto daemon = std::make_shared<Daemon>(std::move(opened));
  if (daemon->is_admin()) {
    return [daemon](const v1::ReleaseRequest& r) -> absl::StatusOr<Bytes> {
      v1::ReleaseResponse response;
      HP_RETURN_IF_ERROR(
          daemon->Call(&v1::HugePool::Stub::Release, r, &response));
      return Bytes(response.released_bytes());
    };
  }
  HP_ASSIGN_OR_RETURN(const std::shared_ptr<client::Connection> connection,
                      ConnectSession(globals));
  return [connection](const v1::ReleaseRequest& r) {
    client::Connection::Tries tries;
    if (!r.ranges().empty()) return connection->ReleaseParts(r, &tries);
    return r.name().empty() ? connection->Release(r.lease_id())
                            : connection->ReleaseByName(r.name());
  };
}

int Release(const Globals& globals, const std::vector<std::string>& ids,
            const std::string& name) {
  const auto release = Releaser(globals);
  if (!release.ok()) return Report(globals, release.status());
  int worst = kExitOk;
  auto list = nlohmann::ordered_json::array();
  const auto one = [&](const std::string& what, const v1::ReleaseRequest& r) {
    const absl::StatusOr<Bytes> released = (*release)(r);
    if (!released.ok()) {
      worst =
          std::max(worst, Report(globals, Annotate(released.status(), what)));
    } else if (globals.json) {
      list.push_back({{"lease", what}, {"released_bytes", released->value()}});
    } else {
      *globals.out << "released " << what << ": " << *released << "\n";
    }
  };
  v1::ReleaseRequest request;
  for (const std::string& id : ids) {
    request.set_lease_id(id);
    one(id, request);
  }
  if (!name.empty()) {
    request.set_name(name);
    one(name, request);
  }
  if (globals.json) PrintJson(*globals.out, {{"released", std::move(list)}});
  return worst;
}

void PrintParts(const v1::ReleaseRequest& request, const std::string& what,
                Bytes released, const Globals& globals) {
  if (globals.json) {
    auto ranges = nlohmann::ordered_json::array();
    for (const auto& range : request.ranges()) ranges.push_back(ToJson(range));
    auto list = nlohmann::ordered_json::array();
    list.push_back({{"lease", what},
                    {"released_bytes", released.value()},
                    {"ranges", std::move(ranges)}});
    return PrintJson(*globals.out, {{"released", std::move(list)}});
  }
  *globals.out << "released of " << what << ": " << released << "\n";
  Table table({"SEGMENT", "OFFSET", "SIZE"});
  for (const auto& range : request.ranges()) {
    table.AddRow({absl::StrCat(range.segment()),
                  ToString(Bytes(range.offset())),
                  SizeCell(range.size_bytes())});
  }
  table.Print(*globals.out);
}

// Parts of one lease, which lives on: all of them, or none.
int ReleaseParts(const Globals& globals, const std::vector<std::string>& ids,
                 const std::string& name,
                 const std::vector<std::string>& texts) {
  v1::ReleaseRequest request;
  for (const std::string& text : texts) {
    const auto range = ParseRange(text);
    if (!range.ok())
      return Report(globals, Annotate(range.status(), "--range"));
    auto* const out = request.add_ranges();
    out->set_segment(range->segment);
    out->set_offset(range->offset.value());
    out->set_size_bytes(range->size.value());
  }
  if (ids.size() > 1) {
    return Report(globals, absl::InvalidArgumentError(
                               "--range is of one lease, but several ids were "
                               "given: release parts lease by lease"));
  }
  if (ids.empty()) {
    request.set_name(name);
  } else {
    request.set_lease_id(ids.front());
  }
  const std::string& what = ids.empty() ? name : ids.front();
  const auto release = Releaser(globals);
  if (!release.ok()) return Report(globals, release.status());
  const absl::StatusOr<Bytes> released = (*release)(request);
  if (!released.ok()) {
    return Report(globals, Annotate(released.status(), what));
  }
  PrintParts(request, what, *released, globals);
  return kExitOk;
}

struct RevokeFlags {
  std::string id;
  bool kill = false;
  std::string notice = "0";
};

// A notice beyond any that makes sense; it fits the message.
constexpr absl::Duration kLongestNotice = absl::Hours(24);

int Revoke(const Globals& globals, const RevokeFlags& flags) {
  const auto notice = ParseWait(flags.notice);
  if (!notice.ok())
    return Report(globals, Annotate(notice.status(), "--notice"));
  if (*notice > kLongestNotice) {
    return Report(globals, absl::InvalidArgumentError(absl::StrCat(
                               "--notice ", flags.notice,
                               ": at most a day is possible")));
  }
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::RevokeLeaseRequest request;
  request.set_lease_id(flags.id);
  request.set_kill(flags.kill);
  request.set_notice_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(*notice)));
  v1::RevokeLeaseResponse response;
  if (absl::Status s = daemon->CallAdmin(&v1::HugePoolAdmin::Stub::RevokeLease,
                                         request, &response, *notice);
      !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) {
    PrintJson(*globals.out, {{"lease", flags.id},
                             {"revoked_bytes", response.revoked_bytes()},
                             {"killed", response.killed()}});
    return kExitOk;
  }
  *globals.out << "revoked " << flags.id << ": "
               << Bytes(response.revoked_bytes());
  if (flags.kill) {
    *globals.out << ", " << response.killed() << " processes ended";
  }
  *globals.out << "\n";
  return kExitOk;
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

void AddRelease(CLI::App* lease, const Globals* globals, Action* action) {
  auto* release =
      lease->add_subcommand("release", "ends leases, or gives up parts of one");
  const auto ids = std::make_shared<std::vector<std::string>>();
  const auto name = std::make_shared<std::string>();
  const auto ranges = std::make_shared<std::vector<std::string>>();
  auto* which = release->add_option_group("which");
  which->add_option("ID", *ids, "ids of leases");
  which->add_option("--name", *name, "name of a named lease");
  which->require_option(1);
  auto* parts = release
                    ->add_option("--range", *ranges,
                                 "[SEGMENT:]OFFSET+SIZE: not the lease, but "
                                 "this part, which its holders must not touch "
                                 "any more; repeatable")
                    ->expected(1)
                    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                    ->allow_extra_args(false);
  release->callback([=] {
    *action = [=] {
      return parts->count() == 0 ? Release(*globals, *ids, *name)
                                 : ReleaseParts(*globals, *ids, *name, *ranges);
    };
  });
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

  AddRelease(lease, globals, action);

  auto* revoke = lease->add_subcommand(
      "revoke", "takes a lease's memory away from its holders (admin)");
  const auto flags = std::make_shared<RevokeFlags>();
  revoke->add_option("ID", flags->id, "id of the lease")->required();
  revoke->add_flag("--kill", flags->kill,
                   "end the holders, for sealed leases");
  revoke->add_option("--notice", flags->notice,
                     "time that its holder has to give it back, e.g. 10s");
  revoke->callback([=] { *action = [=] { return Revoke(*globals, *flags); }; });
}

}  // namespace hugepool::hpctl
