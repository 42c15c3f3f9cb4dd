#include "daemon/sys/huge_memory.h"

namespace hugepool::sys {

std::string_view ToString(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kNone:
      return "none";
    case ProbeKind::kLease:
      return "lease";
    case ProbeKind::kExec:
      return "exec";
  }
  return "?";
}

}  // namespace hugepool::sys
