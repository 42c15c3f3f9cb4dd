// What a configuration is refused for, and the exact words.
#include <ostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/server/config/config.h"
#include "daemon/server/config/load.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

// What is refused, and what is said about it.
struct Refusal {
  const char* text;
  const char* message;
};

void PrintTo(const Refusal& refusal, std::ostream* os) {
  *os << "\"" << refusal.text << "\"";
}

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithTheReason) {
  const absl::StatusOr<Config> config = ParseConfig(GetParam().text, "f.yaml");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(config.status().message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, Refused,
    ::testing::Values(
        Refusal{"colour: red",
                "f.yaml:1: 'colour': there is no such key, known here are: "
                "listeners, pools, domains, admin, kernel_pages, zeroing, "
                "verify, grants, limits, reuse, share_page_tables, backend, "
                "log_level, run_dir"},
        Refusal{"kernel-pages: {mode: off}",
                "f.yaml:1: 'kernel-pages': there is no such key, did you mean "
                "'kernel_pages'?"},
        Refusal{"[a]: b",
                "f.yaml:1: a list or map is used as a key, write a word"},
        Refusal{"\n- a",
                "f.yaml:1: a list where a map is needed, write 'key: value' "
                "lines with: listeners, pools, domains, admin, kernel_pages, "
                "zeroing, verify, grants, limits, reuse, share_page_tables, "
                "backend, log_level, run_dir"},
        Refusal{"log_level: info\n---\nlog_level: debug\n",
                "f.yaml:2: a second document begins here, remove the line"},
        Refusal{"{}\nlog_level: debug\n",
                "f.yaml:2: is not YAML: this does not go with what stands "
                "before it, check indentation (spaces only), colons and "
                "quotes"},
        Refusal{"log_level:\n",
                "f.yaml:1: log_level: no value is not known here, write one "
                "of: error, warning, info, debug"},
        Refusal{"zeroing: fast",
                "f.yaml:1: zeroing: 'fast' where a map is needed, write 'key: "
                "value' lines with: threads, stores, bandwidth, idle_class, "
                "pressure_limit"},
        Refusal{"pools: 1GiB",
                "f.yaml:1: pools: '1GiB' where a list is needed, write items "
                "that begin with '- page_size: '"},
        Refusal{"pools: []",
                "f.yaml:1: pools: the list is empty and there would be nothing "
                "to lend, write '- page_size: all' or remove the key"},
        Refusal{"listeners: []",
                "f.yaml:1: listeners: the list is empty and nobody could "
                "connect, write '- dir: /run/hugepool' or remove the key"},
        Refusal{"a: {b\n",
                "f.yaml:2: is not YAML: end of map flow not found, check "
                "indentation (spaces only), colons and quotes"}));

INSTANTIATE_TEST_SUITE_P(
    Values, Refused,
    ::testing::Values(
        Refusal{"zeroing: {idle_class: maybe}",
                "f.yaml:1: zeroing.idle_class: 'maybe' is neither, write true "
                "or false"},
        Refusal{"verify: {interval: 1ms}",
                "f.yaml:1: verify.interval: '1ms' is out of range, write 1s "
                "to 720h"},
        Refusal{"zeroing: {pressure_limit: 0%}",
                "f.yaml:1: zeroing.pressure_limit: '0%' is not a share, write "
                "1% to 100%"},
        Refusal{"zeroing: {bandwidth: 10}",
                "f.yaml:1: zeroing.bandwidth: less than 1MiB a second would "
                "never fill a pool, write more, or none for no cap"},
        Refusal{"grants:\n  resume_grace: 10",
                "f.yaml:2: grants.resume_grace: '10' is not a duration, write "
                "one with its unit, such as 100ms, 5s or 2m"},
        Refusal{"grants: {acknowledge_within: -5s}",
                "f.yaml:1: grants.acknowledge_within: '-5s' is out of range, "
                "write 10ms to 10m"},
        Refusal{"grants: {acknowledge_within: inf}",
                "f.yaml:1: grants.acknowledge_within: 'inf' is out of range, "
                "write 10ms to 10m"},
        Refusal{"grants: {max_unacknowledged_fds: 9}",
                "f.yaml:1: grants.max_unacknowledged_fds: 506 per session is "
                "above 9 in all, write at most as many per session"},
        Refusal{"limits: {max_extents: 4294967296}",
                "f.yaml:1: limits.max_extents: '4294967296' is not such a "
                "number, write a whole number from 1 to 16777216"},
        Refusal{"kernel_pages: {max_percent: 101}",
                "f.yaml:1: kernel_pages.max_percent: '101' is not such a "
                "number, write a whole number from 1 to 100"},
        Refusal{"domains: [{name: a, quota: 1X}]",
                "f.yaml:1: domains[0].quota: '1X' is not a size: its unit is "
                "unknown; write a whole number with an optional unit, such as "
                "4096, 512K, 2M or 1GiB (powers of 1024)"},
        Refusal{"domains: [{name: a b}]",
                "f.yaml:1: domains[0].name: 'a b' is no name, write the name "
                "of a domain, uid:N or \"*\" (at most 64 letters, digits and . "
                "_ : -)"},
        Refusal{"domains: [{name: 'uid:root'}]",
                "f.yaml:1: domains[0].name: 'uid:root' names no user, write "
                "the user's number such as uid:1000"},
        Refusal{"domains:\n- {name: a}\n- {name: a}",
                "f.yaml:3: domains[1].name: 'a' is also the name of the domain "
                "at f.yaml:2, make one of the two"},
        Refusal{"domains: [{name: a, quota: 1G, named_quota: 2G}]",
                "f.yaml:1: domains[0].named_quota: 2 GiB is above 'quota', "
                "write at most 1 GiB"}));

INSTANTIATE_TEST_SUITE_P(
    Sockets, Refused,
    ::testing::Values(
        // N56: an abstract socket.
        Refusal{"listeners: [{dir: '@hugepool'}]",
                "f.yaml:1: listeners[0].dir: '@hugepool' asks for an abstract "
                "socket, which has no owner and no mode, write an absolute "
                "path such as /run/hugepool"},
        Refusal{"admin: {dir: '@x'}",
                "f.yaml:1: admin.dir: '@x' asks for an abstract socket, which "
                "has no owner and no mode, write an absolute path such as "
                "/run/hugepool"},
        Refusal{"listeners: [{dir: run}]",
                "f.yaml:1: listeners[0].dir: 'run' is not absolute, write an "
                "absolute path such as /run/hugepool"},
        Refusal{"listeners: [{dir: /run/../x}]",
                "f.yaml:1: listeners[0].dir: '/run/../x' contains '..', write "
                "an absolute path such as /run/hugepool"},
        Refusal{"run_dir: //",
                "f.yaml:1: run_dir: sockets do not belong into '/', write an "
                "absolute path such as /run/hugepool"},
        Refusal{"run_dir: \"/run/\\n\"",
                "f.yaml:1: run_dir: '/run/?' contains a control character, "
                "write an absolute path such as /run/hugepool"},
        Refusal{"listeners:\n- dir: /run/a\n- dir: /run/./a/\n",
                "f.yaml:3: listeners[1].dir: '/run/a' is also the directory of "
                "the listener at f.yaml:2, write another or remove one of the "
                "two"},
        Refusal{"listeners: [{dir: /run/a, domain: 'uid:0'}]",
                "f.yaml:1: listeners[0].domain: names that begin with 'uid:' "
                "are those of domains by user, write another name"},
        Refusal{"listeners: [{dir: /run/a, domain: '*'}]",
                "f.yaml:1: listeners[0].domain: '*' is no name, write the name "
                "of a domain (at most 64 letters, digits and . _ : -)"},
        Refusal{"admin: {group: 'a:b'}",
                "f.yaml:1: admin.group: is no name of a group, write the name "
                "or number of a group, or \"\""},
        Refusal{"admin: {group: '*'}",
                "f.yaml:1: admin.group: '*' would let everybody administer the "
                "daemon, write the name of a group, or \"\" for root only"}));

INSTANTIATE_TEST_SUITE_P(
    Pools, Refused,
    ::testing::Values(
        Refusal{"pools: [{page_size: 2M, low: 80%, high: 50%}]",
                "f.yaml:1: pools[0].low: is above 'high', write low <= high "
                "(by default low is 25% and high is 100%)"},
        Refusal{"pools: [{page_size: 2M, target: 1G, low: 600M, high: 50%}]",
                "f.yaml:1: pools[0].low: is above 'high', write low <= high "
                "(by default low is 25% and high is 100%)"},
        Refusal{"pools: [{page_size: 2M, target: 1G, high: 2G}]",
                "f.yaml:1: pools[0].high: 2 GiB is above the target, write at "
                "most 1 GiB"},
        Refusal{"pools: [{page_size: 2M, low: 0%}]",
                "f.yaml:1: pools[0].low: '0%' is not a share, write 1% to "
                "100%"},
        Refusal{"pools: [{page_size: 2M, target: 120%}]",
                "f.yaml:1: pools[0].target: '120%' is not a share, write 1% to "
                "100%"},
        Refusal{"pools: [{page_size: 2M, target: 3M}]",
                "f.yaml:1: pools[0].target: 3 MiB is no multiple of the page "
                "size (2 MiB), write one"},
        Refusal{"pools: [{page_size: 2M, shapes: [2M, 5M]}]",
                "f.yaml:1: pools[0].shapes: 5 MiB is no multiple of the page "
                "size (2 MiB), write one"},
        Refusal{"pools: [{page_size: 2M, target: 1G, shapes: [2G]}]",
                "f.yaml:1: pools[0].shapes: 2 GiB is above the target (1 GiB), "
                "remove it"},
        Refusal{"pools: [{page_size: 2M, shapes: [2M, 2048K]}]",
                "f.yaml:1: pools[0].shapes[1]: 2 MiB stands here twice, remove "
                "one"},
        Refusal{"pools: [{page_size: 2M, shapes: []}]",
                "f.yaml:1: pools[0].shapes: the list is empty, write auto or "
                "some sizes"},
        Refusal{"pools: [{page_size: 2M, nodes: [0, 0]}]",
                "f.yaml:1: pools[0].nodes[1]: node 0 stands here twice, remove "
                "one"},
        Refusal{"pools: [{page_size: 2M, nodes: [-1]}]",
                "f.yaml:1: pools[0].nodes[0]: '-1' is not such a number, write "
                "a whole number from 0 to 1023"},
        Refusal{"pools:\n- {page_size: 2M}\n- {page_size: 1G}\n"
                "- {page_size: 2M, nodes: [1]}\n",
                "f.yaml:4: pools[2]: the pool at f.yaml:2 has the same page "
                "size on the same node, remove one of the two"},
        Refusal{"pools:\n- {page_size: all}\n- {page_size: 1G}\n",
                "f.yaml:3: pools[1]: the pool at f.yaml:2 has the same page "
                "size on the same node, remove one of the two"},
        Refusal{"pools: [{page_size: all, target: 1G}]",
                "f.yaml:1: pools[0].target: sizes mean nothing where "
                "'page_size' is all, write a share such as 80%, max or name "
                "one page size"},
        Refusal{"kernel_pages: {mode: exact}\npools: [{page_size: 1G}]",
                "f.yaml:2: pools[0].target: with 'kernel_pages.mode: exact' "
                "only a size is exact, write one such as 64GiB"}));

}  // namespace
}  // namespace hugepool::server
