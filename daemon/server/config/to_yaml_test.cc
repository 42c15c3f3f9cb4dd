#include "daemon/server/config/to_yaml.h"

#include <string>
#include <string_view>

#include "daemon/server/config/config.h"
#include "daemon/server/config/load.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

void ExpectRoundTrip(const Config& config) {
  const std::string text = ToYaml(config);
  const absl::StatusOr<Config> again = ParseConfig(text, "printed");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_TRUE(*again == config) << text << "\nreads as\n" << ToYaml(*again);
}

TEST(ToYaml, PrintsTheDefault) {
  EXPECT_EQ(ToYaml(DefaultConfig()), R"(listeners:
  - dir: "/run/hugepool"
    group: ""
    domain: ""
admin:
  dir: "/run/hugepool"
  group: ""
pools:
  - page_size: all
    nodes: all
    target: max
    low: 25%
    high: 100%
    shapes: auto
kernel_pages:
  mode: off
  max_percent: 50
reuse: retire
domains: []
share_page_tables: auto
backend: auto
zeroing:
  threads: auto
  stores: auto
  bandwidth: 4GiB/s
  idle_class: true
  pressure_limit: 10%
verify:
  interval: 1m
  at_grant: false
grants:
  acknowledge_within: 5s
  resume_grace: 10s
  max_unacknowledged_fds_per_session: 506
  max_unacknowledged_fds: 4048
limits:
  max_extents: 65536
  max_sessions: 4096
  max_waiters: 4096
log_level: info
run_dir: "/run/hugepool"
)");
  ExpectRoundTrip(DefaultConfig());
}

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, ReadsBackEqual) {
  const absl::StatusOr<Config> config = ParseConfig(GetParam(), "f.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  ExpectRoundTrip(*config);
}

INSTANTIATE_TEST_SUITE_P(
    All, RoundTrip,
    ::testing::Values(
        "", "run_dir: /run/x", "admin: {dir: /run/y, group: '107'}",
        "admin: {group: 'CORP\\domain admins@x'}",
        "listeners: [{dir: \"/run/a \\\"b\\\" \\\\ #c: d\", group: '*'}]",
        "listeners: [{dir: /run/\xc3\xa4}, {dir: /b, group: g, domain: d}]",
        "pools: [{page_size: 2M, nodes: [3, 1], target: 10M, low: 4097, "
        "high: 8M, shapes: [2M, 6M]}]",
        "pools: [{page_size: 1G, target: 7%, low: 1%, high: 2%}]",
        "pools: [{page_size: 64K}, {page_size: 16M}, {page_size: 16G}]",
        "kernel_pages: {mode: exact, max_percent: 100}\n"
        "pools: [{page_size: 1G, target: 3T}]",
        "reuse: in-place\ndomains: [{name: a}, {name: b, reuse: retire}]",
        "domains: [{name: '*', quota: 12345, named_quota: 1, max_waiters: 0}]",
        "share_page_tables: off\nbackend: shmem\nlog_level: warning",
        "zeroing: {threads: 3, stores: plain, bandwidth: none, idle_class: off}",
        "zeroing: {bandwidth: 1234567, pressure_limit: off}",
        "zeroing: {pressure_limit: 100%}",
        "verify: {interval: off, at_grant: yes}",
        "verify: {interval: 90s}",
        "grants: {acknowledge_within: 1.5s, resume_grace: 0s}",
        "grants: {acknowledge_within: 1m30.000000001s, resume_grace: 24h}",
        "limits: {max_extents: 1, max_sessions: 2, max_waiters: 0}"));

}  // namespace
}  // namespace hugepool::server
