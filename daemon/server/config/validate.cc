#include "daemon/server/config/validate.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {
namespace {

Origin Below(const Origin& at, std::string_view key) {
  Origin below = at;
  Append(&below.key, ".", key);
  return below;
}

std::string Place(const Origin& at) {
  return at.line > 0 ? Cat(at.file, ":", at.line) : at.file;
}

void ValidateListeners(const Draft& draft, ConfigErrors* errors) {
  const auto& listeners = draft.config.listeners;
  for (size_t i = 0; i < listeners.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (listeners[j].dir != listeners[i].dir) continue;
      errors->Add(Below(listeners[i].origin, "dir"),
                  Cat("'", listeners[i].dir,
                      "' is also the directory "
                      "of the listener at ",
                      Place(listeners[j].origin),
                      ", write another or remove one of the two"));
      break;
    }
  }
}

bool NodesOverlap(const PoolConfig& a, const PoolConfig& b) {
  if (a.all_nodes || b.all_nodes) return true;
  return std::any_of(a.nodes.begin(), a.nodes.end(), [&](NodeId n) {
    return std::count(b.nodes.begin(), b.nodes.end(), n) > 0;
  });
}

bool SizesOverlap(const PoolConfig& a, const PoolConfig& b) {
  return !a.page_size || !b.page_size || a.page_size == b.page_size;
}

// The bytes that a watermark stands for; nullopt where only the host can tell.
std::optional<Bytes> Resolve(const Watermark& mark, const PoolTarget& target) {
  if (const Bytes* bytes = std::get_if<Bytes>(&mark)) return *bytes;
  const Bytes* of = std::get_if<Bytes>(&target);
  if (of == nullptr) return std::nullopt;
  const uint64_t percent = std::get<Percent>(mark).value;
  // In this order it cannot overflow; what is lost is below a page.
  return Bytes(of->value() / 100 * percent);
}

void ValidateWatermarks(const PoolConfig& pool, ConfigErrors* errors) {
  const auto* low_percent = std::get_if<Percent>(&pool.low);
  const auto* high_percent = std::get_if<Percent>(&pool.high);
  const std::optional<Bytes> low = Resolve(pool.low, pool.target);
  const std::optional<Bytes> high = Resolve(pool.high, pool.target);
  const bool crossed =
      low_percent != nullptr && high_percent != nullptr
          ? low_percent->value > high_percent->value
          : low.has_value() && high.has_value() && *low > *high;
  if (crossed) {
    errors->Add(Below(pool.origin, "low"),
                "is above 'high', write low <= high (by default low is 25% and "
                "high is 100%)");
  }
  const Bytes* target = std::get_if<Bytes>(&pool.target);
  const Bytes* high_bytes = std::get_if<Bytes>(&pool.high);
  if (target != nullptr && high_bytes != nullptr && *high_bytes > *target) {
    errors->Add(Below(pool.origin, "high"),
                Cat(ToString(*high_bytes), " is above the target, ",
                    "write at most ", ToString(*target)));
  }
}

// What cannot be said in bytes of a pool whose pages have several sizes.
void ValidateManySizes(const PoolConfig& pool, ConfigErrors* errors) {
  const auto refuse = [&](std::string_view key, std::string_view instead) {
    errors->Add(Below(pool.origin, key),
                Cat("sizes mean nothing where 'page_size' is all, "
                    "write ",
                    instead, " or name one page size"));
  };
  if (std::holds_alternative<Bytes>(pool.target)) {
    refuse("target", "a share such as 80%, max");
  }
  if (std::holds_alternative<Bytes>(pool.low)) refuse("low", "a share");
  if (std::holds_alternative<Bytes>(pool.high)) refuse("high", "a share");
  if (!pool.auto_shapes) refuse("shapes", "auto");
}

void ValidateMultiples(const PoolConfig& pool, ConfigErrors* errors) {
  const uint64_t page = pool.page_size->bytes().value();
  const auto check = [&](std::string_view key, Bytes size) {
    if (size.value() != 0 && size.value() % page == 0) return;
    errors->Add(Below(pool.origin, key),
                Cat(ToString(size),
                    " is no multiple of the page size "
                    "(",
                    ToString(*pool.page_size), "), write one"));
  };
  const Bytes* target = std::get_if<Bytes>(&pool.target);
  if (target != nullptr) check("target", *target);
  for (const Bytes shape : pool.shapes) {
    check("shapes", shape);
    if (target != nullptr && shape > *target) {
      errors->Add(Below(pool.origin, "shapes"),
                  Cat(ToString(shape), " is above the target (",
                      ToString(*target), "), remove it"));
    }
  }
}

void ValidatePools(const Draft& draft, ConfigErrors* errors) {
  const auto& pools = draft.config.pools;
  for (size_t i = 0; i < pools.size(); ++i) {
    const PoolConfig& pool = pools[i];
    ValidateWatermarks(pool, errors);
    if (pool.page_size.has_value()) {
      ValidateMultiples(pool, errors);
    } else {
      ValidateManySizes(pool, errors);
    }
    if (draft.config.kernel_pages.mode == KernelPagesMode::kExact &&
        !std::holds_alternative<Bytes>(pool.target)) {
      // A share of what there is would shrink with every start.
      errors->Add(Below(pool.origin, "target"),
                  "with 'kernel_pages.mode: exact' only a size is exact, write "
                  "one such as 64GiB");
    }
    for (size_t j = 0; j < i; ++j) {
      if (!SizesOverlap(pools[j], pool) || !NodesOverlap(pools[j], pool)) {
        continue;
      }
      errors->Add(pool.origin, Cat("the pool at ", Place(pools[j].origin),
                                   " has the same page size on the same node, "
                                   "remove one of the two"));
      break;
    }
  }
}

void ValidateDomain(const Draft& draft, size_t index, ConfigErrors* errors) {
  const DomainConfig& domain = draft.config.domains[index];
  uint32_t uid = 0;
  absl::string_view name = domain.name;
  if (absl::ConsumePrefix(&name, AbslView(kUidDomainPrefix)) &&
      (!absl::SimpleAtoi(name, &uid) || Cat(uid) != StdView(name))) {
    errors->Add(Below(domain.origin, "name"),
                Cat("'", domain.name,
                    "' names no user, write the "
                    "user's number such as uid:1000"));
  }
  if (domain.quota != Bytes(0) && domain.named_quota > domain.quota) {
    errors->Add(Below(domain.origin, "named_quota"),
                Cat(ToString(domain.named_quota),
                    " is above 'quota', "
                    "write at most ",
                    ToString(domain.quota)));
  }
  for (size_t j = 0; j < index; ++j) {
    const DomainConfig& other = draft.config.domains[j];
    if (other.name != domain.name) continue;
    errors->Add(Below(domain.origin, "name"),
                Cat("'", domain.name,
                    "' is also the name of the "
                    "domain at ",
                    Place(other.origin), ", make one of the two"));
    break;
  }
}

void ValidateGrants(const Draft& draft, ConfigErrors* errors) {
  const GrantsConfig& grants = draft.config.grants;
  if (grants.max_unacknowledged_fds_per_session <=
      grants.max_unacknowledged_fds) {
    return;
  }
  // At the one of the two that somebody wrote.
  const std::string_view session = "grants.max_unacknowledged_fds_per_session";
  const std::string_view total = "grants.max_unacknowledged_fds";
  errors->Add(draft.Where(draft.Wrote(session) ? session : total),
              Cat(grants.max_unacknowledged_fds_per_session,
                  " per session is above ", grants.max_unacknowledged_fds,
                  " in all, write at most as many per session"));
}

}  // namespace

void FillDefaults(Draft* draft) {
  Config& config = draft->config;
  const Config defaults = DefaultConfig();
  if (!draft->Wrote("admin.dir")) config.admin.dir = config.run_dir;
  if (!draft->Wrote("pools")) config.pools = defaults.pools;
  if (!draft->Wrote("listeners")) {
    config.listeners = defaults.listeners;
    config.listeners[0].dir = config.run_dir;
  }
  for (size_t i = 0; i < config.domains.size(); ++i) {
    if (!draft->domain_says_reuse[i]) config.domains[i].reuse = config.reuse;
  }
}

void Validate(const Draft& draft, ConfigErrors* errors) {
  // An item with errors has been left out, so an empty list may be a wrong one.
  const bool complete = errors->empty();
  if (complete && draft.config.listeners.empty()) {
    errors->Add(draft.Where("listeners"),
                "the list is empty and nobody could connect, write "
                "'- dir: /run/hugepool' or remove the key");
  }
  if (complete && draft.config.pools.empty()) {
    errors->Add(draft.Where("pools"),
                "the list is empty and there would be nothing to lend, write "
                "'- page_size: all' or remove the key");
  }
  ValidateListeners(draft, errors);
  ValidatePools(draft, errors);
  for (size_t i = 0; i < draft.config.domains.size(); ++i) {
    ValidateDomain(draft, i, errors);
  }
  ValidateGrants(draft, errors);
}

}  // namespace hugepool::server
