#include "daemon/server/config/to_yaml.h"

#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {
namespace {

std::string Text(std::string_view s) {
  return Cat("\"",
             absl::StrReplaceAll(AbslView(s), {{"\\", "\\\\"}, {"\"", "\\\""}}),
             "\"");
}

// "64GiB", without the space that is there for people.
std::string Text(Bytes b) {
  return absl::StrReplaceAll(ToString(b), {{" ", ""}});
}
std::string Text(Percent p) { return Cat(p.value, "%"); }
std::string Text(AllPages) { return "max"; }
std::string Text(absl::Duration d) { return absl::FormatDuration(d); }
std::string Text(uint32_t n) { return Cat(n); }
std::string Text(NodeId n) { return Cat(n.value()); }
std::string Text(bool b) { return b ? "true" : "false"; }

template <typename... T>
std::string Text(const std::variant<T...>& v) {
  return std::visit([](const auto& x) { return Text(x); }, v);
}

template <typename T>
std::string Text(const std::vector<T>& items) {
  return Cat(
      "[",
      absl::StrJoin(items, ", ",
                    [](std::string* out, const T& x) { *out += Text(x); }),
      "]");
}

std::string QuotaText(Bytes b) { return b == Bytes(0) ? "none" : Text(b); }

std::string PoolText(const PoolConfig& pool) {
  return Cat("  - page_size: ",
             pool.page_size.has_value() ? Text(pool.page_size->bytes()) : "all",
             "\n    nodes: ", pool.all_nodes ? "all" : Text(pool.nodes),
             "\n    target: ", Text(pool.target), "\n    low: ", Text(pool.low),
             "\n    high: ", Text(pool.high),
             "\n    shapes: ", pool.auto_shapes ? "auto" : Text(pool.shapes),
             "\n");
}

std::string DomainText(const DomainConfig& domain) {
  return Cat("  - name: ", Text(std::string_view(domain.name)),
             "\n    reuse: ", ToString(domain.reuse),
             "\n    quota: ", QuotaText(domain.quota),
             "\n    named_quota: ", QuotaText(domain.named_quota),
             "\n    max_waiters: ", domain.max_waiters, "\n");
}

std::string ListenersText(const Config& config) {
  std::string out = "listeners:\n";
  for (const ListenerConfig& listener : config.listeners) {
    Append(&out, "  - dir: ", Text(std::string_view(listener.dir)),
           "\n    group: ", Text(std::string_view(listener.group)),
           "\n    domain: ", Text(std::string_view(listener.domain)), "\n");
  }
  Append(&out, "admin:\n  dir: ", Text(std::string_view(config.admin.dir)),
         "\n  group: ", Text(std::string_view(config.admin.group)), "\n");
  return out;
}

std::string ZeroingText(const ZeroingConfig& zeroing) {
  return Cat(
      "zeroing:\n  threads: ",
      zeroing.threads.has_value() ? Text(*zeroing.threads) : "auto",
      "\n  stores: ", zeroing.stores, "\n  bandwidth: ",
      zeroing.bandwidth.has_value() ? Text(*zeroing.bandwidth) + "/s" : "none",
      "\n  idle_class: ", Text(zeroing.idle_class), "\n  pressure_limit: ",
      zeroing.pressure_limit.has_value() ? Text(*zeroing.pressure_limit) : "off",
      "\n");
}

std::string VerifyText(const VerifyConfig& verify) {
  return Cat("verify:\n  interval: ",
             verify.interval.has_value() ? Text(*verify.interval) : "off",
             "\n  at_grant: ", Text(verify.at_grant), "\n");
}

std::string GrantsText(const GrantsConfig& grants) {
  return Cat("grants:\n  acknowledge_within: ", Text(grants.acknowledge_within),
             "\n  resume_grace: ", Text(grants.resume_grace),
             "\n  max_unacknowledged_fds_per_session: ",
             grants.max_unacknowledged_fds_per_session,
             "\n  max_unacknowledged_fds: ", grants.max_unacknowledged_fds,
             "\n");
}

std::string LimitsText(const LimitsConfig& limits) {
  return Cat("limits:\n  max_extents: ", limits.max_extents,
             "\n  max_sessions: ", limits.max_sessions,
             "\n  max_waiters: ", limits.max_waiters, "\n");
}

}  // namespace

std::string ToYaml(const Config& config) {
  std::string out = ListenersText(config);
  Append(&out, "pools:\n");
  for (const PoolConfig& pool : config.pools) {
    Append(&out, PoolText(pool));
  }
  Append(&out, "kernel_pages:\n  mode: ", ToString(config.kernel_pages.mode),
         "\n  max_percent: ", config.kernel_pages.max_percent, "\n");
  Append(&out, "reuse: ", ToString(config.reuse), "\n");
  Append(&out, "domains:", config.domains.empty() ? " []\n" : "\n");
  for (const DomainConfig& domain : config.domains) {
    Append(&out, DomainText(domain));
  }
  Append(&out, "share_page_tables: ", ToString(config.share_page_tables),
         "\nbackend: ", ToString(config.backend), "\n",
         ZeroingText(config.zeroing), VerifyText(config.verify),
         GrantsText(config.grants),
         LimitsText(config.limits), "log_level: ", ToString(config.log_level),
         "\nrun_dir: ", Text(std::string_view(config.run_dir)), "\n");
  return out;
}

}  // namespace hugepool::server
