#include "daemon/server/config/config.h"

namespace hugepool::server {

Config DefaultConfig() {
  Config config;
  config.listeners.push_back({.dir = config.run_dir});
  config.listeners.back().origin.key = "listeners[0]";
  config.admin.dir = config.run_dir;
  config.pools.emplace_back();
  config.pools.back().origin.key = "pools[0]";
  return config;
}

DomainConfig DomainFor(const Config& config, std::string_view name) {
  DomainConfig found;
  found.reuse = config.reuse;
  for (const DomainConfig& domain : config.domains) {
    if (domain.name == name) return domain;
    if (domain.name == kEverybody) found = domain;
  }
  found.name = name;
  return found;
}

std::string_view ToString(KernelPagesMode mode) {
  switch (mode) {
    case KernelPagesMode::kOff:
      return "off";
    case KernelPagesMode::kGrow:
      return "grow";
    case KernelPagesMode::kExact:
      return "exact";
  }
  return "?";
}

std::string_view ToString(Reuse reuse) {
  switch (reuse) {
    case Reuse::kRetire:
      return "retire";
    case Reuse::kInPlace:
      return "in-place";
  }
  return "?";
}

std::string_view ToString(SharePageTables share) {
  switch (share) {
    case SharePageTables::kAuto:
      return "auto";
    case SharePageTables::kOff:
      return "off";
  }
  return "?";
}

std::string_view ToString(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kHugetlb:
      return "hugetlb";
    case Backend::kShmem:
      return "shmem";
  }
  return "?";
}

}  // namespace hugepool::server
