#include "daemon/server/config/load.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hugepool::server {
namespace {

namespace fs = std::filesystem;
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
zeroing: {threads: 4, stores: plain, bandwidth: 8GiB/s, idle_class: no,
          pressure_limit: 25%}
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
  EXPECT_EQ(c.zeroing, (ZeroingConfig{4, "plain", GiB(8), false, Percent{25}}));
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
