// acquire.
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hpctl/allocation.h"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/lease_print.h"
#include "client/hpctl/rpc.h"

namespace hugepool::hpctl {
namespace {

// The signals that end a hold. To be blocked before any thread is made, so
// that no thread of gRPC takes them.
sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

// Where other processes of this user find the extents.
std::vector<std::string> Paths(const client::HeldLease& held) {
  std::vector<std::string> paths;
  for (const UniqueFd& fd : *held.fds) {
    paths.push_back(absl::StrCat("/proc/", getpid(), "/fd/", fd.get()));
  }
  return paths;
}

void Print(const Globals& globals, const client::HeldLease& held, bool hold) {
  const std::vector<std::string> paths =
      hold ? Paths(held) : std::vector<std::string>();
  if (!globals.json) {
    PrintLease(held.lease, paths, *globals.out);
    *globals.out << std::flush;
    return;
  }
  auto json = ToJson(held.lease);
  json["waited"] = absl::ToDoubleSeconds(held.waited);
  json["paths"] = paths;
  PrintJsonLine(*globals.out, json);
}

int Acquire(const Globals& globals, const AllocationFlags& flags, bool hold) {
  const auto request = BuildAcquireRequest(flags, v1::LIFETIME_SESSION);
  if (!request.ok()) return Report(globals, request.status());
  const sigset_t end = EndSignals();
  if (hold) pthread_sigmask(SIG_BLOCK, &end, nullptr);
  const auto connection = ConnectSession(globals);
  if (!connection.ok()) return Report(globals, connection.status());
  auto held = (*connection)->Acquire(*request, {.map = false});
  if (!held.ok()) return Report(globals, held.status());
  Print(globals, *held, hold);
  if (hold) {
    int signal = 0;
    sigwait(&end, &signal);
  }
  const std::string id = held->lease.lease_id();
  const v1::Lifetime lifetime = request->lifetime();
  *held = client::HeldLease();
  if (lifetime == v1::LIFETIME_NAMED) return kExitOk;  // it stays
  const auto released = (*connection)->Release(id);
  return Report(globals, released.status());
}

}  // namespace

void AddAcquireCommand(CLI::App* app, const Globals* globals, Action* action) {
  auto* acquire = app->add_subcommand(
      "acquire", "leases memory, to try it out or to hold it");
  const auto flags = std::make_shared<AllocationFlags>();
  const auto hold = std::make_shared<bool>(false);
  AddAllocationFlags(acquire, flags.get());
  acquire->add_flag("--hold", *hold,
                    "keep it until SIGINT or SIGTERM; without, a lease that "
                    "is not named ends at once");
  acquire->callback(
      [=] { *action = [=] { return Acquire(*globals, *flags, *hold); }; });
}

}  // namespace hugepool::hpctl
