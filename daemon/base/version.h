// The version of the release, for the daemon and hpctl alike.
#ifndef HUGEPOOL_DAEMON_BASE_VERSION_H_
#define HUGEPOOL_DAEMON_BASE_VERSION_H_

namespace hugepool {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_VERSION_H_
