// pool list, set, drain, reclaim, demote, verify.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/pool_table.h"
#include "client/hpctl/rpc.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/units.h"

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

// Which pool, and how much.
struct PoolFlags {
  uint32_t node = 0;
  std::string page_size;
  std::string size;
};

absl::Status Fill(const PoolFlags& flags, v1::PoolSelector* pool,
                  uint64_t* bytes) {
  pool->set_node(flags.node);
  const auto page_size = ParseBytes(flags.page_size);
  if (!page_size.ok()) return Annotate(page_size.status(), "--page-size");
  pool->set_page_size(page_size->value());
  if (flags.size.empty()) return absl::OkStatus();
  HP_ASSIGN_OR_RETURN(const Bytes size, ParseBytes(flags.size));
  *bytes = size.value();
  return absl::OkStatus();
}

// Calls `method` of the admin service. The reply goes to `response` and is
// printed, by `print` where it is not to be JSON.
template <typename Method, typename Request, typename Response>
int Admin(const Globals& globals, Method method, const Request& request,
          Response* response, const std::function<void()>& print) {
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  if (absl::Status s = daemon->CallAdmin(method, request, response); !s.ok()) {
    return Report(globals, s);
  }
  if (globals.json) {
    PrintJson(*globals.out, ToJson(*response));
  } else if (print != nullptr) {
    print();
  }
  return kExitOk;
}

int Set(const Globals& globals, const PoolFlags& flags) {
  v1::SetPoolTargetRequest request;
  uint64_t bytes = 0;
  if (absl::Status s = Fill(flags, request.mutable_pool(), &bytes); !s.ok()) {
    return Report(globals, s);
  }
  request.set_target_bytes(bytes);
  v1::SetPoolTargetResponse r;
  return Admin(globals, &v1::HugePoolAdmin::Stub::SetPoolTarget, request, &r,
               [&] {
                 google::protobuf::RepeatedPtrField<v1::PoolStatus> pools;
                 *pools.Add() = r.pool();
                 PrintPools(pools, /*wide=*/false, *globals.out);
               });
}

int Drain(const Globals& globals, bool undo) {
  v1::DrainRequest request;
  request.set_draining(!undo);
  v1::DrainResponse r;
  return Admin(globals, &v1::HugePoolAdmin::Stub::Drain, request, &r, nullptr);
}

int Reclaim(const Globals& globals, const PoolFlags& flags) {
  v1::ReclaimRequest request;
  uint64_t bytes = 0;
  if (absl::Status s = Fill(flags, request.mutable_pool(), &bytes); !s.ok()) {
    return Report(globals, s);
  }
  request.set_bytes(bytes);
  v1::ReclaimResponse r;
  return Admin(globals, &v1::HugePoolAdmin::Stub::Reclaim, request, &r, [&] {
    *globals.out << "reclaimed " << Bytes(r.reclaimed_bytes()) << "\n";
  });
}

int Demote(const Globals& globals, const PoolFlags& flags) {
  v1::DemoteRequest request;
  uint64_t bytes = 0;
  if (absl::Status s = Fill(flags, request.mutable_pool(), &bytes); !s.ok()) {
    return Report(globals, s);
  }
  request.set_bytes(bytes);
  v1::DemoteResponse r;
  return Admin(globals, &v1::HugePoolAdmin::Stub::Demote, request, &r, [&] {
    *globals.out << "demoted " << Bytes(r.demoted_bytes()) << "\n";
  });
}

// Exit code 1 where a byte that should be zero is not.
int Verify(const Globals& globals, const PoolFlags& flags) {
  v1::VerifyRequest request;
  uint64_t none = 0;
  if (!flags.page_size.empty()) {
    if (absl::Status s = Fill(flags, request.mutable_pool(), &none); !s.ok()) {
      return Report(globals, s);
    }
  }
  v1::VerifyResponse r;
  const int code =
      Admin(globals, &v1::HugePoolAdmin::Stub::Verify, request, &r, [&] {
        *globals.out << "verified " << Bytes(r.verified_bytes()) << ", "
                     << r.stray_bytes() << " bytes not zero\n";
      });
  return code == kExitOk && r.stray_bytes() != 0 ? kExitFailed : code;
}

using Command = int (*)(const Globals&, const PoolFlags&);

// A command about one pool; with `size_help` it takes a size.
void AddOne(CLI::App* pool, const char* name, const char* help,
            const char* size_help, const Globals* globals, Action* action,
            Command command) {
  auto* sub = pool->add_subcommand(name, help);
  const auto flags = std::make_shared<PoolFlags>();
  sub->add_option("--node", flags->node, "NUMA node")->required();
  sub->add_option("--page-size", flags->page_size, "e.g. 2M")->required();
  if (size_help != nullptr) {
    sub->add_option("SIZE", flags->size, size_help)->required();
  }
  sub->callback([=] { *action = [=] { return command(*globals, *flags); }; });
}

}  // namespace

void AddPoolCommands(CLI::App* app, const Globals* globals, Action* action) {
  auto* pool = app->add_subcommand("pool", "the pools of huge pages");
  pool->require_subcommand(1);
  pool->add_subcommand("list", "what each pool holds, and its use over time")
      ->callback([=] { *action = [=] { return List(*globals); }; });
  AddOne(pool, "set", "changes a pool's target (admin)", "the new target",
         globals, action, Set);
  AddOne(pool, "reclaim", "gives clean memory back (admin)", "how much",
         globals, action, Reclaim);
  AddOne(pool, "demote", "splits large pages into the next size (admin)",
         "how much", globals, action, Demote);
  auto* verify = pool->add_subcommand(
      "verify", "reads clean memory, which must be zero (admin)");
  const auto which = std::make_shared<PoolFlags>();
  auto* node = verify->add_option("--node", which->node,
                                  "NUMA node; without it every pool is read");
  auto* size =
      verify->add_option("--page-size", which->page_size, "e.g. 2M");
  node->needs(size);
  size->needs(node);
  verify->callback(
      [=] { *action = [=] { return Verify(*globals, *which); }; });
  auto* drain = pool->add_subcommand("drain", "no new leases (admin)");
  const auto undo = std::make_shared<bool>(false);
  drain->add_flag("--undo", *undo, "allow leases again");
  drain->callback([=] { *action = [=] { return Drain(*globals, *undo); }; });
}

}  // namespace hugepool::hpctl
