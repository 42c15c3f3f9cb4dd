#include "daemon/clear/zero_routines.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hugepool {

#if defined(__x86_64__)

namespace {

__attribute__((target("avx2"))) void ZeroAvx2(std::byte* start, size_t length) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t i = 0; i < length; i += 64) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(start + i), zero);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(start + i + 32), zero);
  }
}

void ZeroSse2(std::byte* start, size_t length) {
  const __m128i zero = _mm_setzero_si128();
  for (size_t i = 0; i < length; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(start + i), zero);
  }
}

}  // namespace

void ZeroNonTemporal(std::byte* start, size_t length) {
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) {
    ZeroAvx2(start, length);
  } else {
    ZeroSse2(start, length);
  }
  // Streaming stores are weakly ordered: without the fence a lease could be
  // published before its zeros.
  _mm_sfence();
}

#else

void ZeroNonTemporal(std::byte* start, size_t length) {
  std::memset(start, 0, length);
}

#endif

}  // namespace hugepool
