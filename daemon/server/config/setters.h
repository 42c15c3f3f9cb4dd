// Readers of the values that have a grammar of their own. Internal.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_SETTERS_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_SETTERS_H_

#include <optional>
#include <string>

#include "daemon/base/units.h"
#include "daemon/server/config/config.h"
#include "daemon/server/config/value.h"

namespace hugepool::server {

// `*into = value` where there was one.
template <typename Opt, typename T>
void Set(const Opt& value, T* into) {
  if (value.has_value()) *into = *value;
}

// Each reads the value into its target, or says what is wrong with it and
// leaves the target alone.
//
// "" (nobody but root), "*" (everybody, where allowed), or a group.
void SetGroup(const Value& v, bool everybody_allowed, std::string* into);
// "" (by user) or a name that no user's domain has.
void SetListenerDomain(const Value& v, std::string* into);
// "64GiB", "80%" or "max".
void SetTarget(const Value& v, PoolTarget* into);
// "25%" or "16GiB".
void SetWatermark(const Value& v, Watermark* into);
// "all" or a list of numbers.
void SetNodes(const Value& v, PoolConfig* pool);
// "auto" or a list of sizes.
void SetShapes(const Value& v, PoolConfig* pool);
// A size; "none" and 0 are no limit.
void SetQuota(const Value& v, Bytes* into);
// Bytes a second with or without "/s", or "none".
void SetBandwidth(const Value& v, std::optional<Bytes>* into);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_SETTERS_H_
