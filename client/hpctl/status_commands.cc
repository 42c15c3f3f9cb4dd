// status, health, version.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/pool_table.h"
#include "client/hpctl/rpc.h"
#include "client/hpctl/table.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/units.h"
#include "daemon/base/version.h"

namespace hugepool::hpctl {
namespace {

absl::StatusOr<v1::GetStatusResponse> GetStatus(const Globals& globals) {
  HP_ASSIGN_OR_RETURN(Daemon daemon, Daemon::At(globals));
  v1::GetStatusResponse status;
  HP_RETURN_IF_ERROR(daemon.Call(&v1::HugePool::Stub::GetStatus,
                                 v1::GetStatusRequest(), &status));
  return status;
}

void PrintHead(const v1::GetStatusResponse& status, std::ostream& out) {
  out << "hugepoold " << TextCell(status.version()) << ", "
      << (status.ready() ? "ready" : "not ready") << ", backend "
      << TextCell(status.backend()) << ", probe " << TextCell(status.probe());
  if (status.has_started()) {
    out << ", up " << AgeCell(absl::Now() - FromProto(status.started()));
  }
  out << "\n"
      << status.sessions() << " sessions, " << status.leases() << " leases, "
      << status.descriptors_in_flight() << " descriptors in flight";
  if (status.descriptor_limit() != 0) {
    out << ", room for " << status.descriptor_limit() << " more";
  }
  out << "\n";
}

void PrintDomains(const v1::GetStatusResponse& status, std::ostream& out) {
  Table table({"DOMAIN", "CHARGED", "RETURNING", "QUOTA", "LEASES", "REUSE"});
  for (const v1::DomainStatus& domain : status.domains()) {
    table.AddRow({domain.domain(), SizeCell(domain.charged_bytes()),
                  SizeCell(domain.returning_bytes()),
                  SizeCell(domain.quota_bytes()), absl::StrCat(domain.leases()),
                  domain.in_place() ? "in place" : "retire"});
  }
  if (table.empty()) return;
  out << "\n";
  table.Print(out);
}

void PrintWaits(const v1::GetStatusResponse& status, std::ostream& out) {
  Table table({"WAITING", "DOMAIN", "WANTS", "AVAILABLE", "PLACE", "FOR"});
  for (const v1::WaitStatus& wait : status.waits()) {
    table.AddRow(
        {wait.request_id(), wait.domain(), SizeCell(wait.wanted_bytes()),
         SizeCell(wait.available_bytes()), absl::StrCat(wait.position()),
         AgeCell(FromProto(wait.waited()))});
  }
  if (table.empty()) return;
  out << "\n";
  table.Print(out);
}

// "45.2 GB/s by 2"; "-" where nothing is known. Of 10^9 bytes, as memory's
// bandwidth is told.
std::string RateCell(uint64_t bytes_per_second, uint32_t threads) {
  if (bytes_per_second == 0) return "-";
  const std::string rate = absl::StrFormat("%.1f GB/s", bytes_per_second / 1e9);
  return threads == 0 ? rate : absl::StrCat(rate, " by ", threads);
}

// "4.3 GB/s"; "1.1 GB/s, 25% as others wait 37.5%"; "no cap".
std::string BackgroundCell(const v1::ZeroingStatus& z) {
  const std::string cap = z.background_bytes_per_second() == 0
                              ? "no cap"
                              : RateCell(z.background_bytes_per_second(), 0);
  if (z.background_share() >= 1 || z.background_share() <= 0) return cap;
  const std::string share =
      absl::StrFormat("%s, %.0f%%", cap, z.background_share() * 100);
  return z.has_pressure_percent() ? absl::StrFormat("%s as others wait %.1f%%",
                                                    share, z.pressure_percent())
                                  : share;
}

void PrintZeroing(const v1::GetStatusResponse& status, std::ostream& out) {
  Table table(
      {"NODE", "STORES", "ONE THREAD", "CLEARING", "POPULATING", "BACKGROUND"});
  for (const v1::ZeroingStatus& z : status.zeroing()) {
    table.AddRow({absl::StrCat(z.node()), TextCell(z.stores()),
                  RateCell(z.stores_bytes_per_second(), 0),
                  RateCell(z.zero_bytes_per_second(), z.zero_threads()),
                  RateCell(z.populate_bytes_per_second(), z.populate_threads()),
                  BackgroundCell(z)});
  }
  if (table.empty()) return;
  out << "\n";
  table.Print(out);
}

int Status(const Globals& globals) {
  const auto status = GetStatus(globals);
  if (!status.ok()) return Report(globals, status.status());
  if (globals.json) {
    PrintJson(*globals.out, ToJson(*status));
    return kExitOk;
  }
  std::ostream& out = *globals.out;
  PrintHead(*status, out);
  if (status->pools_size() > 0) {
    out << "\n";
    PrintPools(status->pools(), /*wide=*/false, out);
  }
  PrintZeroing(*status, out);
  PrintDomains(*status, out);
  PrintWaits(*status, out);
  for (const std::string& warning : status->warnings()) {
    out << "warning: " << TextCell(warning) << "\n";
  }
  return kExitOk;
}

// What each pool has and what it shall have, where it cannot get the rest.
std::string WhyDegraded(const v1::GetStatusResponse& status) {
  std::string why;
  for (const v1::PoolStatus& pool : status.pools()) {
    if (pool.shortfall().empty()) continue;
    absl::StrAppend(&why, why.empty() ? "" : "; ", "pool of ",
                    ToString(Bytes(pool.page_size())), " pages on node ",
                    pool.node(), " has ", ToString(Bytes(OwnedBytes(pool))),
                    " of ", ToString(Bytes(pool.target_bytes())), ": ",
                    TextCell(pool.shortfall()));
  }
  return why;
}

// Why the daemon is not ready, as far as it says.
std::string WhyNotReady(const v1::GetStatusResponse& status) {
  const std::string degraded = WhyDegraded(status);
  if (!degraded.empty()) return degraded;
  return status.warnings_size() > 0 ? TextCell(status.warnings(0))
                                    : "pools are being filled";
}

int Health(const Globals& globals, bool must_be_ready) {
  const auto status = GetStatus(globals);
  if (!status.ok()) return Report(globals, status.status());
  const std::string degraded = WhyDegraded(*status);
  const std::string why = status->ready() ? degraded : WhyNotReady(*status);
  if (globals.json) {
    PrintJson(*globals.out, {{"alive", true},
                             {"ready", status->ready()},
                             {"degraded", !degraded.empty()},
                             {"why", why}});
  } else {
    *globals.out << (!status->ready()    ? "alive, not ready: "
                     : degraded.empty() ? "ready"
                                        : "ready, degraded: ")
                 << why << "\n";
  }
  return must_be_ready && !status->ready() ? kExitFailed : kExitOk;
}

int Version(const Globals& globals) {
  const auto status = GetStatus(globals);
  const std::string daemon = status.ok() ? TextCell(status->version()) : "";
  if (globals.json) {
    PrintJson(
        *globals.out,
        {{"hpctl", kVersion}, {"api", "hugepool.v1"}, {"daemon", daemon}});
  } else {
    *globals.out << "hpctl " << kVersion << ", API hugepool.v1\nhugepoold "
                 << (status.ok() ? daemon : "cannot be reached") << "\n";
  }
  return kExitOk;
}

}  // namespace

void AddStatusCommands(CLI::App* app, const Globals* globals, Action* action) {
  app->add_subcommand("status", "pools, domains and who waits")->callback([=] {
    *action = [=] { return Status(*globals); };
  });
  auto* health = app->add_subcommand("health", "whether the daemon answers");
  const auto ready = std::make_shared<bool>(false);
  health->add_flag("--ready", *ready, "fail too while pools are being filled");
  health->callback([=] { *action = [=] { return Health(*globals, *ready); }; });
  app->add_subcommand("version", "versions of hpctl and of the daemon")
      ->callback([=] { *action = [=] { return Version(*globals); }; });
}

}  // namespace hugepool::hpctl
