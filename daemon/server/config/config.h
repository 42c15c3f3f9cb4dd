// The configuration of hugepoold as plain structs.
//
// Text becomes these structs in load.h, the structs become the pools of this
// host in expand_pools.h, and to_yaml.h prints them again. What each field
// means to an operator is in docs/configuration.md; here is what it means to
// code.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_CONFIG_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/log.h"
#include "daemon/base/units.h"

namespace hugepool::server {

// The sockets in a directory. Their names are part of the limit on its length.
inline constexpr std::string_view kGrpcSocketName = "grpc.sock";
inline constexpr std::string_view kFdSocketName = "fd.sock";
inline constexpr std::string_view kAdminSocketName = "admin.sock";
// The longest path of a socket: sockaddr_un::sun_path without its final NUL.
inline constexpr size_t kMaxSocketPath = 107;

// In place of a group: everybody may connect. In place of a domain's name:
// every domain that is not listed.
inline constexpr std::string_view kEverybody = "*";
// What the names of domains by user begin with: "uid:1000".
inline constexpr std::string_view kUidDomainPrefix = "uid:";

// Where something was written, for messages. It is no part of the value: all
// origins compare equal.
struct Origin {
  std::string file = "built-in defaults";
  int line = 0;     // from 1; 0: no line to tell
  std::string key;  // e.g. "pools[0]"

  friend bool operator==(const Origin&, const Origin&) { return true; }
};

// A share in percent; of what, the context tells.
struct Percent {
  uint32_t value = 0;
  friend bool operator==(Percent, Percent) = default;
};

// A directory with the two sockets that clients connect to.
struct ListenerConfig {
  std::string dir;  // absolute and normal: no "..", no "/" at the end
  // Who may connect besides root and the daemon's own user: the members of this
  // group (a name or a number), everybody where "*", nobody where empty.
  std::string group;
  std::string domain;  // all clients that come this way; empty: one per uid
  Origin origin;

  friend bool operator==(const ListenerConfig&,
                         const ListenerConfig&) = default;
};

// The socket for operators.
struct AdminConfig {
  std::string dir;    // as ListenerConfig::dir; run_dir where nothing was said
  std::string group;  // as ListenerConfig::group, but never "*"

  friend bool operator==(const AdminConfig&, const AdminConfig&) = default;
};

// Every page of the node and size that is free.
struct AllPages {
  friend bool operator==(AllPages, AllPages) = default;
};
// How much a pool should hold, on each node: Percent is of the kernel's pages.
using PoolTarget = std::variant<AllPages, Percent, Bytes>;
// An amount of clean memory, on each node: Percent is of the target.
using Watermark = std::variant<Percent, Bytes>;

struct PoolConfig {
  std::optional<PageSize> page_size;  // nullopt: every size the kernel offers
  bool all_nodes = true;
  std::vector<NodeId> nodes;  // ascending; empty where all_nodes
  PoolTarget target = AllPages{};
  Watermark low = Percent{25};
  Watermark high = Percent{100};
  bool auto_shapes = true;
  std::vector<Bytes> shapes;  // ascending; empty where auto_shapes
  Origin origin;

  friend bool operator==(const PoolConfig&, const PoolConfig&) = default;
};

// Whether the daemon changes the kernel's nr_hugepages.
enum class KernelPagesMode {
  kOff,    // never
  kGrow,   // adds pages to reach a target; gives back those it added
  kExact,  // makes them equal to the target, up or down
};

struct KernelPagesConfig {
  KernelPagesMode mode = KernelPagesMode::kOff;
  // The part of a node's memory that huge pages may take after growing.
  uint32_t max_percent = 50;

  friend bool operator==(const KernelPagesConfig&,
                         const KernelPagesConfig&) = default;
};

// What happens to the pages of a lease that has ended.
enum class Reuse {
  kRetire,   // back to the kernel, which zeroes fresh ones
  kInPlace,  // cleared by us, for the same domain, where the client allows it
};

struct DomainConfig {
  std::string name;  // of a listener's domain, "uid:N", or "*"
  Reuse reuse = Reuse::kRetire;
  Bytes quota;        // over all its leases; 0: no limit
  Bytes named_quota;  // over its named leases; 0: no limit but `quota`
  uint32_t max_waiters = 256;
  Origin origin;

  friend bool operator==(const DomainConfig&, const DomainConfig&) = default;
};

enum class SharePageTables { kAuto, kOff };
enum class Backend { kAuto, kHugetlb, kShmem };

struct ZeroingConfig {
  std::optional<uint32_t> threads;  // per node; nullopt: by calibration
  // The store routine for clearing in place: a name of AllStoreRoutines(), or
  // "auto", the fastest on the node's own memory.
  std::string stores = "auto";
  // Per second and node, for background work only; nullopt: no cap.
  std::optional<Bytes> bandwidth = GiB(4);
  bool idle_class = true;  // background work runs SCHED_IDLE
  // Of others on the machine; above it background work backs off. nullopt: it does
  // not look.
  std::optional<Percent> pressure_limit = Percent{10};

  friend bool operator==(const ZeroingConfig&, const ZeroingConfig&) = default;
};

// Looking at clean memory, which must be zero.
struct VerifyConfig {
  // Between two samples of each pool; nullopt: none.
  std::optional<absl::Duration> interval = absl::Minutes(1);
  bool at_grant = false;  // all that is lent, before it is

  friend bool operator==(const VerifyConfig&, const VerifyConfig&) = default;
};

struct GrantsConfig {
  absl::Duration acknowledge_within = absl::Seconds(5);
  absl::Duration resume_grace = absl::Seconds(10);
  uint32_t max_unacknowledged_fds_per_session = 506;  // two full messages
  uint32_t max_unacknowledged_fds = 4048;

  friend bool operator==(const GrantsConfig&, const GrantsConfig&) = default;
};

struct LimitsConfig {
  uint32_t max_extents = 65'536;
  uint32_t max_sessions = 4096;
  uint32_t max_waiters = 4096;

  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

struct Config {
  std::vector<ListenerConfig> listeners;
  AdminConfig admin;
  std::vector<PoolConfig> pools;
  KernelPagesConfig kernel_pages;
  Reuse reuse = Reuse::kRetire;  // of domains that do not say
  std::vector<DomainConfig> domains;
  SharePageTables share_page_tables = SharePageTables::kAuto;
  Backend backend = Backend::kAuto;
  ZeroingConfig zeroing;
  VerifyConfig verify;
  GrantsConfig grants;
  LimitsConfig limits;
  LogLevel log_level = LogLevel::kInfo;
  std::string run_dir = "/run/hugepool";

  friend bool operator==(const Config&, const Config&) = default;
};

// What is in force where nothing is configured: one pool per page size that the
// kernel offers, of all free pages; one listener, /run/hugepool.
Config DefaultConfig();

// What holds for the domain `name`: its own entry, else that of "*", else the
// defaults. The result bears `name`.
DomainConfig DomainFor(const Config& config, std::string_view name);

// As written in the file.
std::string_view ToString(KernelPagesMode mode);
std::string_view ToString(Reuse reuse);
std::string_view ToString(SharePageTables share);
std::string_view ToString(Backend backend);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_CONFIG_H_
