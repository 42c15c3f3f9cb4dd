// events.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/hpctl/commands.h"
#include "client/hpctl/exit_code.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/parse.h"
#include "client/hpctl/rpc.h"
#include "client/hpctl/table.h"
#include "client/internal/transport.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {
namespace {

struct EventFlags {
  bool follow = false;
  std::string duration = "1s";
  bool leases = false;
  bool pools = false;
  bool waits = false;
};

std::string PoolText(uint32_t node, uint64_t page_size) {
  return absl::StrCat("node ", node, ", ", SizeCell(page_size), " pages");
}

std::string WaitText(const v1::WaitEvent& e) {
  return absl::StrCat(
      "wait ",
      EnumName(google::protobuf::GetEnumDescriptor<v1::WaitEvent::Kind>()
                   ->FindValueByNumber(e.kind())),
      ": ", TextCell(e.wait().request_id()), " wants ",
      SizeCell(e.wait().wanted_bytes()), ", place ", e.wait().position());
}

// One line for people.
std::string Text(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kLease:
      return absl::StrCat(
          "lease ", TextCell(event.lease().lease_id()), " ",
          EnumName(google::protobuf::GetEnumDescriptor<v1::LeaseEvent::Kind>()
                       ->FindValueByNumber(event.lease().kind())),
          ": ", SizeCell(event.lease().bytes()), ", domain ",
          TextCell(event.lease().domain()));
    case v1::Event::kPool: {
      const v1::PoolStatus& p = event.pool().pool();
      return absl::StrCat("pool ", PoolText(p.node(), p.page_size()), ": ",
                          SizeCell(p.clean_bytes()), " clean of ",
                          SizeCell(p.target_bytes()));
    }
    case v1::Event::kProgress: {
      const v1::ProgressEvent& p = event.progress();
      return absl::StrCat("progress ", PoolText(p.node(), p.page_size()), ": ",
                          SizeCell(p.clean_bytes()), " of ",
                          SizeCell(p.target_bytes()));
    }
    case v1::Event::kWait:
      return WaitText(event.wait());
    case v1::Event::kWarning:
      return absl::StrCat("warning: ", TextCell(event.warning().text()));
    case v1::Event::kDropped:
      return absl::StrCat(event.dropped().events(),
                          " events were lost: this reader was too slow");
    case v1::Event::EVENT_NOT_SET:
      break;
  }
  return "an event of a newer daemon";
}

int Events(const Globals& globals, const EventFlags& flags) {
  const auto duration = ParseWait(flags.duration);
  if (!duration.ok()) return Report(globals, duration.status());
  auto daemon = Daemon::At(globals);
  if (!daemon.ok()) return Report(globals, daemon.status());
  v1::WatchRequest request;
  request.set_leases(flags.leases);
  request.set_pools(flags.pools);
  request.set_waits(flags.waits);
  grpc::ClientContext context;
  if (!flags.follow) {
    client::SetDeadline(&context, absl::Now() + *duration);
  }
  const auto stream = daemon->client()->Watch(&context, request);
  v1::Event event;
  while (stream->Read(&event)) {
    if (globals.json) {
      PrintJsonLine(*globals.out, ToJson(event));
      continue;
    }
    const absl::Time time =
        event.has_time() ? FromProto(event.time()) : absl::Now();
    *globals.out << absl::FormatTime("%H:%M:%E3S", time, absl::LocalTimeZone())
                 << "  " << Text(event) << "\n"
                 << std::flush;
  }
  const absl::Status status =
      client::CallStatus(stream->Finish(), daemon->client_path());
  // Without -f the end of the time is the end of the work.
  if (!flags.follow && absl::IsDeadlineExceeded(status)) return kExitOk;
  return Report(globals, status);
}

}  // namespace

void AddEventCommands(CLI::App* app, const Globals* globals, Action* action) {
  auto* events = app->add_subcommand("events", "what happens in the daemon");
  const auto flags = std::make_shared<EventFlags>();
  auto* follow =
      events->add_flag("-f,--follow", flags->follow, "until interrupted");
  events->add_option("--for", flags->duration, "how long to listen")
      ->capture_default_str()
      ->excludes(follow);
  events->add_flag("--leases", flags->leases, "only events of leases");
  events->add_flag("--pools", flags->pools, "only events of pools");
  events->add_flag("--waits", flags->waits, "only events of those who wait");
  events->callback([=] { *action = [=] { return Events(*globals, *flags); }; });
}

}  // namespace hugepool::hpctl
