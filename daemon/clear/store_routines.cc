#include "daemon/clear/store_routines.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace hugepool {
namespace {

bool Always() { return true; }

void ZeroPlain(std::byte* start, size_t length) {
  std::memset(start, 0, length);
}

void CopyPlain(std::byte* to, const std::byte* from, size_t length) {
  std::memcpy(to, from, length);
}

#if defined(__x86_64__)

bool HasAvx512() { return __builtin_cpu_supports("avx512f") != 0; }
bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0; }

// AMD's own leaf: CPUID 8000_0008h, EBX bit 0.
bool HasClzero() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000008, &a, &b, &c, &d) != 0 && (b & 1) != 0 &&
         HasAvx2();
}

// Fast string stores: CPUID 7, EBX bit 9. Without them they are slow microcode.
bool HasErms() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 9)) != 0;
}

__attribute__((target("avx512f"))) void ZeroAvx512(std::byte* start,
                                                   size_t length) {
  const __m512i zero = _mm512_setzero_si512();
  for (size_t i = 0; i < length; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(start + i), zero);
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void CopyAvx512(std::byte* to,
                                                   const std::byte* from,
                                                   size_t length) {
  for (size_t i = 0; i < length; i += 64) {
    const __m512i v =
        _mm512_loadu_si512(reinterpret_cast<const void*>(from + i));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), v);
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void ZeroAvx2(std::byte* start, size_t length) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t i = 0; i < length; i += 64) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(start + i), zero);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(start + i + 32), zero);
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void CopyAvx2(std::byte* to,
                                              const std::byte* from,
                                              size_t length) {
  for (size_t i = 0; i < length; i += 64) {
    const auto* const source = reinterpret_cast<const __m256i*>(from + i);
    auto* const target = reinterpret_cast<__m256i*>(to + i);
    const __m256i first = _mm256_loadu_si256(source);
    const __m256i second = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, first);
    _mm256_stream_si256(target + 1, second);
  }
  _mm_sfence();
}

void ZeroSse2(std::byte* start, size_t length) {
  const __m128i zero = _mm_setzero_si128();
  for (size_t i = 0; i < length; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(start + i), zero);
  }
  _mm_sfence();
}

void CopySse2(std::byte* to, const std::byte* from, size_t length) {
  for (size_t i = 0; i < length; i += 16) {
    const __m128i v =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), v);
  }
  _mm_sfence();
}

__attribute__((target("clzero"))) void ZeroClzero(std::byte* start,
                                                  size_t length) {
  // One line each. Weakly ordered, like the streaming stores. clang 14 has no
  // intrinsic for it unless all of the file is for such CPUs.
  for (size_t i = 0; i < length; i += 64) {
    asm volatile("clzero" : : "a"(start + i) : "memory");
  }
  _mm_sfence();
}

void ZeroRep(std::byte* start, size_t length) {
  asm volatile("rep stosb" : "+D"(start), "+c"(length) : "a"(0) : "memory");
}

void CopyRep(std::byte* to, const std::byte* from, size_t length) {
  asm volatile("rep movsb"
               : "+D"(to), "+S"(from), "+c"(length)
               :
               : "memory");
}

#elif defined(__aarch64__)

// DCZID_EL0: bit 4 forbids DC ZVA, the low bits are log2 of its 4-byte words.
uint64_t Dczid() {
  uint64_t value;
  asm volatile("mrs %0, dczid_el0" : "=r"(value));
  return value;
}
bool HasZva() {
  const uint64_t value = Dczid();
  return (value & 16) == 0 && (uint64_t{4} << (value & 15)) <= 64;
}

void ZeroZva(std::byte* start, size_t length) {
  const size_t block = size_t{4} << (Dczid() & 15);
  for (size_t i = 0; i < length; i += block) {
    asm volatile("dc zva, %0" : : "r"(start + i) : "memory");
  }
  asm volatile("dmb ishst" : : : "memory");
}

void CopyNonTemporal(std::byte* to, const std::byte* from, size_t length) {
  for (size_t i = 0; i < length; i += 16) {
    uint64_t a, b;
    asm volatile("ldnp %0, %1, [%2]" : "=r"(a), "=r"(b) : "r"(from + i));
    asm volatile("stnp %0, %1, [%2]"
                 :
                 : "r"(a), "r"(b), "r"(to + i)
                 : "memory");
  }
  asm volatile("dmb ishst" : : : "memory");
}

#endif

}  // namespace

const std::vector<StoreRoutine>& AllStoreRoutines() {
  static const auto* const routines = new std::vector<StoreRoutine>{
#if defined(__x86_64__)
      {"clzero", true, HasClzero, ZeroClzero, CopyAvx2},
      {"avx512", true, HasAvx512, ZeroAvx512, CopyAvx512},
      {"avx2", true, HasAvx2, ZeroAvx2, CopyAvx2},
      {"sse2", true, Always, ZeroSse2, CopySse2},
      {"rep", false, HasErms, ZeroRep, CopyRep},
#elif defined(__aarch64__)
      {"dc-zva", true, HasZva, ZeroZva, CopyNonTemporal},
#endif
      {"plain", false, Always, ZeroPlain, CopyPlain},
  };
  return *routines;
}

std::vector<const StoreRoutine*> SupportedStoreRoutines() {
  std::vector<const StoreRoutine*> found;
  for (const StoreRoutine& routine : AllStoreRoutines()) {
    if (routine.supported()) found.push_back(&routine);
  }
  return found;
}

const StoreRoutine* FindStoreRoutine(std::string_view name) {
  for (const StoreRoutine& routine : AllStoreRoutines()) {
    if (name == routine.name) return &routine;
  }
  return nullptr;
}

const StoreRoutine& PlainStores() { return AllStoreRoutines().back(); }

}  // namespace hugepool
