#include "daemon/server/config/fields.h"

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/clear/store_routines.h"
#include "daemon/server/config/setters.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {
namespace {

// A key of a map that is read into a T.
template <typename T>
struct Field {
  std::string_view name;
  void (*read)(const Value& value, T* into);
};

template <typename Enum>
void SetEnum(const Value& v, std::span<const Enum> all, Enum* into) {
  std::vector<std::string_view> names;
  for (const Enum e : all) names.push_back(ToString(e));
  if (const auto i = v.AsOneOf(names)) *into = all[*i];
}

void SetReuse(const Value& v, Reuse* into) {
  static constexpr std::array kAll = {Reuse::kRetire, Reuse::kInPlace};
  SetEnum<Reuse>(v, kAll, into);
}

constexpr uint32_t kMaxCount = 1'000'000;

constexpr Field<ListenerConfig> kListenerFields[] = {
    {"dir",
     [](const Value& v, ListenerConfig* c) {
       Set(v.AsSocketDir(kGrpcSocketName), &c->dir);
     }},
    {"group",
     [](const Value& v, ListenerConfig* c) { SetGroup(v, true, &c->group); }},
    {"domain", [](const Value& v,
                  ListenerConfig* c) { SetListenerDomain(v, &c->domain); }},
};

constexpr Field<AdminConfig> kAdminFields[] = {
    {"dir",
     [](const Value& v, AdminConfig* c) {
       Set(v.AsSocketDir(kAdminSocketName), &c->dir);
     }},
    {"group",
     [](const Value& v, AdminConfig* c) { SetGroup(v, false, &c->group); }},
};

constexpr Field<PoolConfig> kPoolFields[] = {
    {"page_size",
     [](const Value& v, PoolConfig* c) {
       if (v.text() != "all") Set(v.AsPageSize(), &c->page_size);
     }},
    {"nodes", [](const Value& v, PoolConfig* c) { SetNodes(v, c); }},
    {"target", [](const Value& v, PoolConfig* c) { SetTarget(v, &c->target); }},
    {"low", [](const Value& v, PoolConfig* c) { SetWatermark(v, &c->low); }},
    {"high", [](const Value& v, PoolConfig* c) { SetWatermark(v, &c->high); }},
    {"shapes", [](const Value& v, PoolConfig* c) { SetShapes(v, c); }},
};

constexpr Field<KernelPagesConfig> kKernelPagesFields[] = {
    {"mode",
     [](const Value& v, KernelPagesConfig* c) {
       static constexpr std::array kAll = {KernelPagesMode::kOff,
                                           KernelPagesMode::kGrow,
                                           KernelPagesMode::kExact};
       SetEnum<KernelPagesMode>(v, kAll, &c->mode);
     }},
    {"max_percent",
     [](const Value& v, KernelPagesConfig* c) {
       Set(v.AsCount(1, 100), &c->max_percent);
     }},
};

// A domain, and whether it said how its pages are used again.
struct DomainDraft {
  DomainConfig domain;
  bool says_reuse = false;
};

constexpr Field<DomainDraft> kDomainFields[] = {
    {"name",
     [](const Value& v, DomainDraft* c) {
       if (v.text() == kEverybody) {
         c->domain.name = kEverybody;
       } else {
         Set(v.AsName("the name of a domain, uid:N or \"*\""), &c->domain.name);
       }
     }},
    {"reuse",
     [](const Value& v, DomainDraft* c) {
       SetReuse(v, &c->domain.reuse);
       c->says_reuse = true;
     }},
    {"quota",
     [](const Value& v, DomainDraft* c) { SetQuota(v, &c->domain.quota); }},
    {"named_quota",
     [](const Value& v, DomainDraft* c) {
       SetQuota(v, &c->domain.named_quota);
     }},
    {"max_waiters",
     [](const Value& v, DomainDraft* c) {
       Set(v.AsCount(0, kMaxCount), &c->domain.max_waiters);
     }},
};

constexpr Field<ZeroingConfig> kZeroingFields[] = {
    {"threads",
     [](const Value& v, ZeroingConfig* c) {
       if (v.text() == "auto") {
         c->threads = std::nullopt;
       } else {
         Set(v.AsCount(1, 1024), &c->threads);
       }
     }},
    {"stores",
     [](const Value& v, ZeroingConfig* c) {
       std::vector<std::string_view> names = {"auto"};
       for (const StoreRoutine& r : AllStoreRoutines()) names.push_back(r.name);
       if (const auto i = v.AsOneOf(names)) c->stores = names[*i];
     }},
    {"bandwidth",
     [](const Value& v, ZeroingConfig* c) { SetBandwidth(v, &c->bandwidth); }},
    {"idle_class",
     [](const Value& v, ZeroingConfig* c) { Set(v.AsBool(), &c->idle_class); }},
    {"pressure_limit",
     [](const Value& v, ZeroingConfig* c) {
       if (v.text() == "off") {
         c->pressure_limit = std::nullopt;
       } else {
         Set(v.AsPercent(), &c->pressure_limit);
       }
     }},
};

constexpr Field<VerifyConfig> kVerifyFields[] = {
    {"interval",
     [](const Value& v, VerifyConfig* c) {
       if (v.text() == "off") {
         c->interval = std::nullopt;
       } else {
         Set(v.AsDuration(absl::Seconds(1), absl::Hours(24 * 30)),
             &c->interval);
       }
     }},
    {"at_grant",
     [](const Value& v, VerifyConfig* c) { Set(v.AsBool(), &c->at_grant); }},
};

constexpr Field<GrantsConfig> kGrantsFields[] = {
    {"acknowledge_within",
     [](const Value& v, GrantsConfig* c) {
       Set(v.AsDuration(absl::Milliseconds(10), absl::Minutes(10)),
           &c->acknowledge_within);
     }},
    {"resume_grace",
     [](const Value& v, GrantsConfig* c) {
       Set(v.AsDuration(absl::ZeroDuration(), absl::Hours(24)),
           &c->resume_grace);
     }},
    {"max_unacknowledged_fds_per_session",
     [](const Value& v, GrantsConfig* c) {
       Set(v.AsCount(1, kMaxCount), &c->max_unacknowledged_fds_per_session);
     }},
    {"max_unacknowledged_fds",
     [](const Value& v, GrantsConfig* c) {
       Set(v.AsCount(1, kMaxCount), &c->max_unacknowledged_fds);
     }},
};

constexpr Field<LimitsConfig> kLimitsFields[] = {
    {"max_extents",
     [](const Value& v, LimitsConfig* c) {
       // 16 Mi slots of 64 bytes are a ledger of 1 GiB.
       Set(v.AsCount(1, 1u << 24), &c->max_extents);
     }},
    {"max_sessions",
     [](const Value& v, LimitsConfig* c) {
       Set(v.AsCount(1, kMaxCount), &c->max_sessions);
     }},
    {"max_waiters",
     [](const Value& v, LimitsConfig* c) {
       Set(v.AsCount(0, kMaxCount), &c->max_waiters);
     }},
};

template <typename T, size_t N>
std::array<std::string_view, N> Names(const Field<T> (&fields)[N]) {
  std::array<std::string_view, N> names;
  for (size_t i = 0; i < N; ++i) names[i] = fields[i].name;
  return names;
}

// Reads a map; calls `seen` for each key that it has.
template <typename T, size_t N, typename Seen>
bool ReadFields(const Value& v, const Field<T> (&fields)[N], T* into,
                const Seen& seen) {
  return v.ReadMap(Names(fields), [&](size_t i, const Value& value) {
    seen(fields[i].name, value);
    fields[i].read(value, into);
  });
}

template <typename T, size_t N>
void ReadSection(const Value& v, const Field<T> (&fields)[N], T* into,
                 Draft* draft) {
  ReadFields(v, fields, into, [&](std::string_view, const Value& value) {
    draft->written[value.at().key] = value.at();
  });
}

// Reads a list of maps. `take(item, origin)` gets those without errors;
// `needed` is the key that each must have.
template <typename T, size_t N, typename Take>
void ReadList(const Value& v, const Field<T> (&fields)[N],
              std::string_view needed, ConfigErrors* errors, const Take& take) {
  const auto items = v.AsList(Cat("items that begin with '- ", needed, ": '"));
  if (!items.has_value()) return;
  for (const Value& item : *items) {
    const size_t errors_before = errors->size();
    T read;
    bool has_needed = false;
    const bool is_map = ReadFields(item, fields, &read,
                                   [&](std::string_view name, const Value&) {
                                     has_needed |= name == needed;
                                   });
    if (is_map && !has_needed) {
      item.Fail(Cat("'", needed, "' is missing, write it"));
    }
    if (errors->size() == errors_before) take(std::move(read), item.at());
  }
}

void ReadListeners(const Value& v, Draft* draft, ConfigErrors* errors) {
  ReadList(v, kListenerFields, "dir", errors,
           [&](ListenerConfig listener, const Origin& at) {
             listener.origin = at;
             draft->config.listeners.push_back(std::move(listener));
           });
}

void ReadPools(const Value& v, Draft* draft, ConfigErrors* errors) {
  ReadList(v, kPoolFields, "page_size", errors,
           [&](PoolConfig pool, const Origin& at) {
             pool.origin = at;
             draft->config.pools.push_back(std::move(pool));
           });
}

void ReadDomains(const Value& v, Draft* draft, ConfigErrors* errors) {
  ReadList(v, kDomainFields, "name", errors,
           [&](DomainDraft read, const Origin& at) {
             read.domain.origin = at;
             draft->config.domains.push_back(std::move(read.domain));
             draft->domain_says_reuse.push_back(read.says_reuse);
           });
}

// A key of the whole file, and the names of the keys below it.
struct TopField {
  std::string_view name;
  void (*read)(const Value& value, Draft* draft, ConfigErrors* errors);
  std::vector<std::string_view> below = {};
  bool list = false;
};

template <typename T, size_t N>
std::vector<std::string_view> Below(const Field<T> (&fields)[N]) {
  const auto names = Names(fields);
  return {names.begin(), names.end()};
}

std::vector<TopField> SectionFields() {
  return {
      {"admin",
       [](const Value& v, Draft* d, ConfigErrors*) {
         ReadSection(v, kAdminFields, &d->config.admin, d);
       },
       Below(kAdminFields)},
      {"kernel_pages",
       [](const Value& v, Draft* d, ConfigErrors*) {
         ReadSection(v, kKernelPagesFields, &d->config.kernel_pages, d);
       },
       Below(kKernelPagesFields)},
      {"zeroing",
       [](const Value& v, Draft* d, ConfigErrors*) {
         ReadSection(v, kZeroingFields, &d->config.zeroing, d);
       },
       Below(kZeroingFields)},
      {"verify",
       [](const Value& v, Draft* d, ConfigErrors*) {
         ReadSection(v, kVerifyFields, &d->config.verify, d);
       },
       Below(kVerifyFields)},
      {"grants",
       [](const Value& v, Draft* d, ConfigErrors*) {
         ReadSection(v, kGrantsFields, &d->config.grants, d);
       },
       Below(kGrantsFields)},
      {"limits",
       [](const Value& v, Draft* d, ConfigErrors*) {
         ReadSection(v, kLimitsFields, &d->config.limits, d);
       },
       Below(kLimitsFields)},
  };
}

std::vector<TopField> ScalarFields() {
  return {
      {"reuse", [](const Value& v, Draft* d,
                   ConfigErrors*) { SetReuse(v, &d->config.reuse); }},
      {"share_page_tables",
       [](const Value& v, Draft* d, ConfigErrors*) {
         static constexpr std::array kAll = {SharePageTables::kAuto,
                                             SharePageTables::kOff};
         SetEnum<SharePageTables>(v, kAll, &d->config.share_page_tables);
       }},
      {"backend",
       [](const Value& v, Draft* d, ConfigErrors*) {
         static constexpr std::array kAll = {Backend::kAuto, Backend::kHugetlb,
                                             Backend::kShmem};
         SetEnum<Backend>(v, kAll, &d->config.backend);
       }},
      {"log_level",
       [](const Value& v, Draft* d, ConfigErrors*) {
         static constexpr std::array kAll = {LogLevel::kError,
                                             LogLevel::kWarning,
                                             LogLevel::kInfo, LogLevel::kDebug};
         SetEnum<LogLevel>(v, kAll, &d->config.log_level);
       }},
      {"run_dir",
       [](const Value& v, Draft* d, ConfigErrors*) {
         Set(v.AsSocketDir(kAdminSocketName), &d->config.run_dir);
       }},
  };
}

const std::vector<TopField>& TopFields() {
  static const auto* const kFields = [] {
    auto* fields = new std::vector<TopField>{
        {"listeners", ReadListeners, Below(kListenerFields), true},
        {"pools", ReadPools, Below(kPoolFields), true},
        {"domains", ReadDomains, Below(kDomainFields), true},
    };
    for (TopField& f : SectionFields()) fields->push_back(std::move(f));
    for (TopField& f : ScalarFields()) fields->push_back(std::move(f));
    return fields;
  }();
  return *kFields;
}

}  // namespace

Origin Draft::Where(std::string_view key) const {
  const auto it = written.find(key);
  if (it != written.end()) return it->second;
  Origin at;
  at.key = key;
  return at;
}

void ReadDocument(const Value& root, Draft* draft, ConfigErrors* errors) {
  std::vector<std::string_view> names;
  for (const TopField& field : TopFields()) names.push_back(field.name);
  root.ReadMap(names, [&](size_t i, const Value& value) {
    draft->written[value.at().key] = value.at();
    TopFields()[i].read(value, draft, errors);
  });
}

std::vector<std::string> KnownKeys() {
  std::vector<std::string> keys;
  for (const TopField& field : TopFields()) {
    keys.emplace_back(field.name);
    for (const std::string_view name : field.below) {
      keys.push_back(Cat(field.name, field.list ? "[]." : ".", name));
    }
  }
  return keys;
}

}  // namespace hugepool::server
