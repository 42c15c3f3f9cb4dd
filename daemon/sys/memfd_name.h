// What the memory's files are called, as in /memfd:hugepool of /proc/PID/maps.
#ifndef HUGEPOOL_DAEMON_SYS_MEMFD_NAME_H_
#define HUGEPOOL_DAEMON_SYS_MEMFD_NAME_H_

namespace hugepool::sys {

inline constexpr char kMemfdName[] = "hugepool";

}  // namespace hugepool::sys

#endif  // HUGEPOOL_DAEMON_SYS_MEMFD_NAME_H_
