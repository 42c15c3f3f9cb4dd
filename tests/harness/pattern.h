// Bytes that tell whose they are. Compiled with optimisation and without
// sanitizers in every build: tests look at each byte they are lent.
#ifndef HUGEPOOL_TESTS_HARNESS_PATTERN_H_
#define HUGEPOOL_TESTS_HARNESS_PATTERN_H_

#include <cstddef>
#include <cstdint>

namespace hugepool::testing {

// An owner's number, at least 1 so that no word of a pattern is zero.
using Seed = uint32_t;

// The 8-byte word of `seed`'s pattern at a word's index in the memory.
inline uint64_t PatternWord(Seed seed, uint64_t index) {
  return (uint64_t{seed} << 32) | (index & 0xffffffffu);
}

// `bytes` is a multiple of 64; `first_word`: the index of data's first word.
void FillPattern(void* data, size_t bytes, Seed seed, uint64_t first_word = 0);
// Words that are not `seed`'s.
uint64_t CountForeignWords(const void* data, size_t bytes, Seed seed,
                           uint64_t first_word = 0);
// Bytes that are not zero; every byte is looked at.
uint64_t CountNonZeroBytes(const void* data, size_t bytes);

}  // namespace hugepool::testing

#endif  // HUGEPOOL_TESTS_HARNESS_PATTERN_H_
