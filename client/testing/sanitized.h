// Whether this build runs under a sanitizer.
#ifndef HUGEPOOL_CLIENT_TESTING_SANITIZED_H_
#define HUGEPOOL_CLIENT_TESTING_SANITIZED_H_

namespace hugepool::testing {

// For tests that take away what a sanitizer's own allocator needs, address space
// or the last mapping: it ends the process then ("Failed to mmap").
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_SANITIZED_H_
