#include "daemon/base/check.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/views.h"

namespace hugepool {

void CheckFailed(const char* file, int line, const char* condition,
                 std::string_view text) {
  Log(LogLevel::kError, absl::StrCat(file, ":", line, ": check failed: ",
                                     condition, ": ", AbslView(text)));
  std::abort();
}

}  // namespace hugepool
