#include "daemon/pool/work.h"

namespace hugepool {

const char* ToString(WorkKind kind) {
  switch (kind) {
    case WorkKind::kBuild: return "build";
    case WorkKind::kRetire: return "retire";
    case WorkKind::kProbe: return "probe";
    case WorkKind::kClear: return "clear";
    case WorkKind::kLetGo: return "let-go";
    case WorkKind::kCopy: return "copy";
    case WorkKind::kVerify: return "verify";
    case WorkKind::kSplit: return "split";
  }
  return "unknown";
}

const char* ToString(WorkOutcome outcome) {
  switch (outcome) {
    case WorkOutcome::kDone: return "done";
    case WorkOutcome::kBusy: return "busy";
    case WorkOutcome::kUnknown: return "unknown";
    case WorkOutcome::kDamaged: return "damaged";
    case WorkOutcome::kNoPages: return "no-pages";
    case WorkOutcome::kFailed: return "failed";
  }
  return "unknown";
}

}  // namespace hugepool
