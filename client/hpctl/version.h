// The version of the release that hpctl is part of.
#ifndef HUGEPOOL_CLIENT_HPCTL_VERSION_H_
#define HUGEPOOL_CLIENT_HPCTL_VERSION_H_

namespace hugepool::hpctl {

inline constexpr char kVersion[] = "0.1.0-dev";

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_VERSION_H_
