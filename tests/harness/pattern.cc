#include "tests/harness/pattern.h"

#include <cstring>

namespace hugepool::testing {

void FillPattern(void* data, size_t bytes, Seed seed, uint64_t first_word) {
  auto* const words = static_cast<uint64_t*>(data);
  for (size_t i = 0; i < bytes / 8; ++i) {
    words[i] = PatternWord(seed, first_word + i);
  }
}

uint64_t CountForeignWords(const void* data, size_t bytes, Seed seed,
                           uint64_t first_word) {
  const auto* const words = static_cast<const uint64_t*>(data);
  uint64_t foreign = 0;
  for (size_t i = 0; i < bytes / 8; ++i) {
    foreign += words[i] != PatternWord(seed, first_word + i);
  }
  return foreign;
}

uint64_t CountNonZeroBytes(const void* data, size_t bytes) {
  constexpr size_t kStep = 64 << 10;
  static const char kZeros[kStep] = {};
  const char* const p = static_cast<const char*>(data);
  uint64_t nonzero = 0;
  for (size_t at = 0; at < bytes; at += kStep) {
    const size_t n = bytes - at < kStep ? bytes - at : kStep;
    if (std::memcmp(p + at, kZeros, n) == 0) continue;
    for (size_t i = 0; i < n; ++i) nonzero += p[at + i] != 0;
  }
  return nonzero;
}

}  // namespace hugepool::testing
