// Clang thread-safety annotations; empty for other compilers.
#ifndef HUGEPOOL_DAEMON_BASE_THREAD_ANNOTATIONS_H_
#define HUGEPOOL_DAEMON_BASE_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define HP_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HP_THREAD_ATTRIBUTE(x)
#endif

#define HP_CAPABILITY(x) HP_THREAD_ATTRIBUTE(capability(x))
#define HP_SCOPED_CAPABILITY HP_THREAD_ATTRIBUTE(scoped_lockable)
#define HP_GUARDED_BY(x) HP_THREAD_ATTRIBUTE(guarded_by(x))
#define HP_PT_GUARDED_BY(x) HP_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define HP_REQUIRES(...) \
  HP_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define HP_ACQUIRE(...) HP_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HP_RELEASE(...) HP_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define HP_TRY_ACQUIRE(...) \
  HP_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define HP_EXCLUDES(...) HP_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define HP_RETURN_CAPABILITY(x) HP_THREAD_ATTRIBUTE(lock_returned(x))
#define HP_NO_THREAD_SAFETY_ANALYSIS \
  HP_THREAD_ATTRIBUTE(no_thread_safety_analysis)

#endif  // HUGEPOOL_DAEMON_BASE_THREAD_ANNOTATIONS_H_
