// What every command of hpctl knows.
#ifndef HUGEPOOL_CLIENT_HPCTL_GLOBALS_H_
#define HUGEPOOL_CLIENT_HPCTL_GLOBALS_H_

#include <ostream>
#include <string>

namespace hugepool::hpctl {

struct Globals {
  std::string socket_dir;
  bool json = false;
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
};

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_GLOBALS_H_
