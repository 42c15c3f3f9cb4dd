#include "daemon/server/config/load.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Parsed(std::string_view text) {
  const absl::StatusOr<Config> config = ParseConfig(text, "f.yaml");
  if (config.ok()) return "ok";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

Config MustParse(std::string_view text) {
  absl::StatusOr<Config> config = ParseConfig(text, "f.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : Config();
}

TEST(ParseConfig, NothingIsTheDefault) {
  EXPECT_EQ(MustParse(""), DefaultConfig());
  EXPECT_EQ(MustParse("# a comment\n"), DefaultConfig());
  EXPECT_EQ(MustParse("---\nzeroing:\ngrants:\n"), DefaultConfig());
}

TEST(ParseConfig, TheDefaultIsAllFreePagesOfEverySize) {
  const Config config = DefaultConfig();
  ASSERT_EQ(config.pools.size(), 1u);
  EXPECT_FALSE(config.pools[0].page_size.has_value());
  EXPECT_TRUE(config.pools[0].all_nodes);
  EXPECT_EQ(config.pools[0].target, PoolTarget(AllPages{}));
  ASSERT_EQ(config.listeners.size(), 1u);
  EXPECT_EQ(config.listeners[0].dir, "/run/hugepool");
  EXPECT_EQ(config.listeners[0].group, "");
  EXPECT_EQ(config.admin.dir, "/run/hugepool");
  EXPECT_EQ(config.reuse, Reuse::kRetire);
}

TEST(ParseConfig, ReadsEveryKey) {
  const Config c = MustParse(R"(
listeners:
  - {dir: /run/hp/a/, group: kvm, domain: vms}
  - {dir: /run/hp//b, group: "*"}
admin: {dir: /run/hp, group: ops}
pools:
  - page_size: 2M
    nodes: [1, 0]
    target: 64GiB
    low: 16G
    high: 90%
    shapes: [1GiB, 2MiB, 32MiB]
  - {page_size: 1GiB, nodes: all, target: 80%, shapes: auto}
kernel_pages: {mode: grow, max_percent: 75}
reuse: in-place
domains:
  - {name: vms, quota: 32GiB, named_quota: 8GiB, max_waiters: 7}
  - {name: "uid:1000", reuse: retire, quota: none}
share_page_tables: off
backend: hugetlb
zeroing: {threads: 4, bandwidth: 8GiB/s, idle_class: no}
grants:
  acknowledge_within: 100ms
  resume_grace: 2m
  max_unacknowledged_fds_per_session: 10
  max_unacknowledged_fds: 20
limits: {max_extents: 1000, max_sessions: 11, max_waiters: 12}
log_level: debug
run_dir: /run/hp
)");
  ASSERT_EQ(c.listeners.size(), 2u);
  EXPECT_EQ(
      c.listeners[0],
      (ListenerConfig{.dir = "/run/hp/a", .group = "kvm", .domain = "vms"}));
  EXPECT_EQ(c.listeners[1], (ListenerConfig{.dir = "/run/hp/b", .group = "*"}));
  EXPECT_EQ(c.admin, (AdminConfig{.dir = "/run/hp", .group = "ops"}));
  ASSERT_EQ(c.pools.size(), 2u);
  EXPECT_EQ(c.pools[0], (PoolConfig{.page_size = k2M,
                                    .all_nodes = false,
                                    .nodes = {NodeId(0), NodeId(1)},
                                    .target = GiB(64),
                                    .low = GiB(16),
                                    .high = Percent{90},
                                    .auto_shapes = false,
                                    .shapes = {MiB(2), MiB(32), GiB(1)}}));
  EXPECT_EQ(c.pools[1], (PoolConfig{.page_size = k1G, .target = Percent{80}}));
  EXPECT_EQ(c.kernel_pages, (KernelPagesConfig{KernelPagesMode::kGrow, 75}));
  EXPECT_EQ(c.share_page_tables, SharePageTables::kOff);
  EXPECT_EQ(c.backend, Backend::kHugetlb);
  EXPECT_EQ(c.zeroing, (ZeroingConfig{4, GiB(8), false}));
  EXPECT_EQ(c.grants,
            (GrantsConfig{absl::Milliseconds(100), absl::Minutes(2), 10, 20}));
  EXPECT_EQ(c.limits, (LimitsConfig{1000, 11, 12}));
  EXPECT_EQ(c.log_level, LogLevel::kDebug);
  EXPECT_EQ(c.run_dir, "/run/hp");
}

TEST(ParseConfig, DomainsInheritReuse) {
  const Config c = MustParse(R"(
domains:
  - name: a
    quota: 1GiB
  - {name: b, reuse: retire}
  - {name: "*", quota: 2GiB}
reuse: in-place
)");
  EXPECT_EQ(DomainFor(c, "a").reuse, Reuse::kInPlace);
  EXPECT_EQ(DomainFor(c, "a").quota, GiB(1));
  EXPECT_EQ(DomainFor(c, "b").reuse, Reuse::kRetire);
  EXPECT_EQ(DomainFor(c, "uid:7").name, "uid:7");
  EXPECT_EQ(DomainFor(c, "uid:7").quota, GiB(2));
  EXPECT_EQ(DomainFor(DefaultConfig(), "x"), (DomainConfig{.name = "x"}));
}

TEST(ParseConfig, DirectoriesFollowRunDir) {
  const Config c = MustParse("run_dir: /run/other\n");
  EXPECT_EQ(c.admin.dir, "/run/other");
  EXPECT_EQ(c.listeners[0].dir, "/run/other");
}

TEST(ParseConfig, TellsAllErrorsInOrder) {
  EXPECT_EQ(Parsed("pool: []\n"
                   "log_level: loud\n"
                   "pools:\n"
                   "  - page_size: 3M\n"
                   "    targt: 1G\n"
                   "  - target: lots\n"
                   "zeroing:\n"
                   "  threads: 0\n"
                   "  threads: 2\n"),
            "f.yaml:1: 'pool': there is no such key, did you mean 'pools'?\n"
            "f.yaml:2: log_level: 'loud' is not known here, write one of: "
            "error, warning, info, debug\n"
            "f.yaml:4: pools[0].page_size: '3M' is no size of a page, write a "
            "power of two that the kernel offers, such as 2MiB or 1GiB\n"
            "f.yaml:5: pools[0].'targt': there is no such key, did you mean "
            "'target'?\n"
            "f.yaml:6: pools[1].target: not an amount, write a size such as "
            "64GiB, a share of the kernel's pages such as 80%, or max\n"
            "f.yaml:6: pools[1]: 'page_size' is missing, write it\n"
            "f.yaml:8: zeroing.threads: '0' is not such a number, write a "
            "whole number from 1 to 1024\n"
            "f.yaml:9: zeroing.threads: the key stands here twice, remove one "
            "of the two");
}

TEST(ParseConfig, AtMostSoManyErrorsAreTold) {
  std::string text;
  for (int i = 0; i < 250; ++i) text += "x" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(Parsed(text), HasSubstr("\nand 150 more errors"));
}

// What is refused, and what is said about it.
struct Refusal {
  const char* text;
  const char* message;
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithTheReason) {
  EXPECT_EQ(Parsed(GetParam().text), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, Refused,
    ::testing::Values(
        Refusal{"colour: red",
                "f.yaml:1: 'colour': there is no such key, known here are: "
                "listeners, pools, domains, admin, kernel_pages, zeroing, "
                "grants, limits, reuse, share_page_tables, backend, log_level, "
                "run_dir"},
        Refusal{"kernel-pages: {mode: off}",
                "f.yaml:1: 'kernel-pages': there is no such key, did you mean "
                "'kernel_pages'?"},
        Refusal{"[a]: b",
                "f.yaml:1: a list or map is used as a key, write a word"},
        Refusal{"\n- a",
                "f.yaml:1: a list where a map is needed, write 'key: value' "
                "lines with: listeners, pools, domains, admin, kernel_pages, "
                "zeroing, grants, limits, reuse, share_page_tables, backend, "
                "log_level, run_dir"},
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
                "value' lines with: threads, bandwidth, idle_class"},
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

// N49: DIR/grpc.sock and DIR/admin.sock must fit into 107 bytes.
TEST(ParseConfig, SocketPathsThatAreTooLong) {
  const auto listener = [](size_t length) {
    return Parsed("listeners: [{dir: /" + std::string(length - 1, 'x') + "}]");
  };
  const auto admin = [](size_t length) {
    return Parsed("admin: {dir: /" + std::string(length - 1, 'x') + "}");
  };
  EXPECT_EQ(listener(97), "ok");
  EXPECT_EQ(listener(98),
            "f.yaml:1: listeners[0].dir: the path of its grpc.sock has 108 "
            "bytes and a socket's path at most 107, write a directory of at "
            "most 97 bytes");
  EXPECT_THAT(listener(190), HasSubstr("has 200 bytes"));
  EXPECT_EQ(admin(96), "ok");
  EXPECT_EQ(admin(97),
            "f.yaml:1: admin.dir: the path of its admin.sock has 108 bytes "
            "and a socket's path at most 107, write a directory of at most 96 "
            "bytes");
}

TEST(ParseConfig, WhatEditorsAdd) {
  EXPECT_EQ(Parsed("\xef\xbb\xbflog_level: info\r\nbackend: auto\r\n"), "ok");
  EXPECT_EQ(Parsed("%YAML 1.2\n---\nlog_level: info\n...\n# the end\n"), "ok");
}

TEST(ParseConfig, PoolsOfOneSizeOnDifferentNodes) {
  EXPECT_EQ(Parsed("pools:\n- {page_size: 2M, nodes: [0]}\n"
                   "- {page_size: 2M, nodes: [1]}\n"),
            "ok");
}

class LoadConfigTest : public ::testing::Test {
 protected:
  LoadConfigTest() {
    std::string name = (fs::path(::testing::TempDir()) / "hp-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~LoadConfigTest() override { fs::remove_all(dir_); }

  void Write(const std::string& name, std::string_view text) {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  absl::StatusOr<Config> Load() { return LoadConfig(dir_ / "hugepoold.yaml"); }

  fs::path dir_;
};

TEST_F(LoadConfigTest, DropInsInOrderOfTheirNames) {
  Write("hugepoold.yaml",
        "pools: [{page_size: 2M}]\nlog_level: error\n"
        "zeroing: {threads: 1, idle_class: false}\n");
  Write("conf.d/20-b.yaml", "pools: [{page_size: 1G}]\nlog_level: debug\n");
  Write("conf.d/10-a.yaml", "log_level: warning\nzeroing: {threads: 2}\n");
  Write("conf.d/.hidden.yaml", "nonsense: 1");
  Write("conf.d/readme.txt", "nonsense: 1");
  const absl::StatusOr<Config> config = Load();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->log_level, LogLevel::kDebug);
  EXPECT_EQ(config->zeroing.threads, 2u);
  EXPECT_FALSE(config->zeroing.idle_class);
  ASSERT_EQ(config->pools.size(), 2u);
  EXPECT_EQ(config->pools[0].page_size, k2M);
  EXPECT_EQ(config->pools[1].page_size, k1G);
  EXPECT_EQ(config->pools[1].origin.file, dir_ / "conf.d/20-b.yaml");
}

TEST_F(LoadConfigTest, ErrorsNameTheirFile) {
  Write("hugepoold.yaml", "log_level: 7\npools: [{page_size: 2M}]\n");
  Write("conf.d/a.yaml", "\n- pools\n");
  Write("conf.d/b.yaml", "\npools: [{page_size: 2M}]\n");
  const std::string d = dir_.string();
  const std::string message(Load().status().message());
  EXPECT_THAT(message,
              ::testing::StartsWith(d + "/hugepoold.yaml:1: log_level:"));
  EXPECT_THAT(message, HasSubstr("\n" + d + "/conf.d/a.yaml:1: a list where"));
  EXPECT_THAT(message, HasSubstr("\n" + d +
                                 "/conf.d/b.yaml:2: pools[0]: the "
                                 "pool at " +
                                 d + "/hugepoold.yaml:2 has"));
}

TEST_F(LoadConfigTest, WhatIsNoFile) {
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kNotFound);
  fs::create_directories(dir_ / "hugepoold.yaml");
  EXPECT_THAT(std::string(Load().status().message()),
              HasSubstr("is not a file"));
}

TEST_F(LoadConfigTest, SizeIsLimited) {
  Write("hugepoold.yaml", std::string(kMaxConfigFile.value(), '\n'));
  EXPECT_TRUE(Load().ok());
  Write("hugepoold.yaml", std::string(kMaxConfigFile.value() + 1, '\n'));
  EXPECT_EQ(Load().status().message(),
            (dir_ / "hugepoold.yaml").string() +
                ": is larger than 1 MiB, write a smaller file");
}

}  // namespace
}  // namespace hugepool::server
