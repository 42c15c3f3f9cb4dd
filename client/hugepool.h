/* The C interface of hugepool's client library.
 *
 * hugepoold keeps pools of huge pages that are already zero. A program leases
 * some, gets them mapped, uses them and gives them back:
 *
 *     hp_error error = HP_ERROR_INIT;
 *     hp_client* client;
 *     hp_request* request;
 *     hp_lease* lease;
 *     hp_segment_options segment = HP_SEGMENT_OPTIONS_INIT;
 *     segment.bytes = 1ull << 30;
 *     if (hp_connect(NULL, &client, &error) != HP_OK) ...
 *     if (hp_request_new(NULL, &request, &error) != HP_OK) ...
 *     if (hp_request_add_segment(request, &segment, &error) != HP_OK) ...
 *     if (hp_acquire(client, request, &lease, &error) != HP_OK) ...
 *
 * Conventions
 *   Sizes and offsets are bytes, times are milliseconds.
 *   Functions that can fail return an hp_code, HP_OK being 0, and describe the
 *   failure in `error`, which may be NULL.
 *   Out-parameters are written on success only; handles are set to NULL on a
 *   failure.
 *   Structures begin with their `size`, set by the *_INIT macros, so that later
 *   versions can add fields at the end: always begin with the macro. A size
 *   that no version of the library had is refused with HP_INVALID_ARGUMENT.
 *   Those of an array all have the same size.
 *   Strings are UTF-8 and end in NUL. Those passed in are copied. Those
 *   returned belong to the handle they came from.
 *   Handles are owned by the caller, who ends each once.
 *
 * Threads
 *   An hp_client may be used by any number of threads at a time. An hp_request
 *   or hp_lease by one at a time, unless all of them only read.
 *
 * fork
 *   A client and its leases belong to the process that connected. In a forked
 *   child every call that needs the daemon returns HP_FAILED_PRECONDITION.
 *   The mapped memory is shared with the child (writes of either are seen by
 *   both), and as long as the child lives it keeps the memory from coming back
 *   after a release. HP_REQUEST_DONTFORK keeps mappings from children; the
 *   descriptors are close-on-exec.
 *
 * Signals and exits
 *   The library installs no signal handler. It starts one thread, which sleeps
 *   until the daemon goes away (HP_CONNECT_NO_WATCH); where it makes calls over
 *   gRPC (HP_CONNECT_OVER_GRPC, an older daemon, a request of more than 60 KiB),
 *   gRPC starts some. What is mapped never faults with SIGBUS, unless an operator
 *   revokes the lease (hp_lease_standing). What was released with
 *   hp_release_ranges faults with SIGSEGV.
 */
#ifndef HUGEPOOL_CLIENT_HUGEPOOL_H_
#define HUGEPOOL_CLIENT_HUGEPOOL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HP_EXPORT __attribute__((visibility("default")))
#else
#define HP_EXPORT
#endif

/* Grows when something is added to this interface. Nothing is ever taken away
 * or changed in meaning within one major version. */
#define HP_API_VERSION_MAJOR 1
#define HP_API_VERSION_MINOR 1

/* The version of the library that is linked: major * 1000 + minor. */
HP_EXPORT unsigned hp_api_version(void);

/* ------------------------------------------------------------------ errors */

/* What kind of failure. The numbers are those of gRPC's status codes. */
typedef enum hp_code {
  HP_OK = 0,
  HP_CANCELLED = 1,
  HP_UNKNOWN = 2,
  HP_INVALID_ARGUMENT = 3,
  HP_DEADLINE_EXCEEDED = 4,
  HP_NOT_FOUND = 5,
  HP_ALREADY_EXISTS = 6,
  HP_PERMISSION_DENIED = 7,
  HP_RESOURCE_EXHAUSTED = 8,
  HP_FAILED_PRECONDITION = 9,
  HP_ABORTED = 10,
  HP_OUT_OF_RANGE = 11,
  HP_UNIMPLEMENTED = 12,
  HP_INTERNAL = 13,
  HP_UNAVAILABLE = 14,
  HP_DATA_LOSS = 15,
  HP_UNAUTHENTICATED = 16
} hp_code;

/* Why, where the daemon said so. Later versions can add values. */
typedef enum hp_reason {
  HP_REASON_NONE = 0,
  HP_REASON_POOL_SHORT = 1,       /* too little clean memory now */
  HP_REASON_QUOTA = 2,            /* the trust domain's quota is used up */
  HP_REASON_TOO_MANY_EXTENTS = 3, /* would take too many descriptors */
  HP_REASON_NEVER_FITS = 4,       /* more than the pools will ever hold */
  HP_REASON_NO_FD_CHANNEL = 5,
  HP_REASON_UNKNOWN_PAGE_SIZE = 6,
  HP_REASON_NO_SUCH_NODE = 7,
  HP_REASON_WAIT_EXPIRED = 8, /* max_wait_ms passed */
  HP_REASON_NOT_ALLOWED = 9,
  HP_REASON_DRAINING = 10,   /* the daemon grants no new leases for now */
  HP_REASON_LEASE_GONE = 11, /* no such lease, or it has ended */
  HP_REASON_BAD_REQUEST = 12,
  HP_REASON_BAD_FRAME = 13,
  HP_REASON_WRONG_VERSION = 14,
  HP_REASON_NAME_TAKEN = 15,
  HP_REASON_INTERNAL = 16
} hp_reason;

/* A failure. Plain data: nothing to free. Untouched on success. */
typedef struct hp_error {
  size_t size;
  int32_t code;   /* an hp_code */
  int32_t reason; /* an hp_reason */
  int32_t retryable;
  int32_t system_errno; /* of the system call that failed, or 0 */
  uint64_t wanted_bytes;
  uint64_t available_bytes;
  char message[512]; /* what failed; cut off where it does not fit */
  char hint[256];    /* what to do about it; can be empty */
} hp_error;

#define HP_ERROR_INIT                              \
  {                                                \
    sizeof(hp_error), 0, 0, 0, 0, 0, 0, {0}, { 0 } \
  }

/* The name of a code ("resource exhausted") or reason ("pool short"). Never
 * NULL; lives for ever. */
HP_EXPORT const char* hp_strerror(int code);
HP_EXPORT const char* hp_strreason(int reason);

/* ------------------------------------------------------------- the client */

typedef struct hp_client hp_client;

/* Start no thread. Without it, a program that holds a lease and makes no calls
 * loses it when the daemon is restarted and the resume grace (10 s) passes. */
#define HP_CONNECT_NO_WATCH (1u << 0)
/* Make the calls over gRPC. They take the socket that brings the descriptors
 * where the daemon knows that way, which takes about half as long. */
#define HP_CONNECT_OVER_GRPC (1u << 1)

typedef struct hp_connect_options {
  size_t size;
  /* For how long a call looks for a daemon that went away (a restart takes
   * about a second). 0: not at all. */
  uint64_t reconnect_ms;
  /* How long the daemon may take to answer a call, beside max_wait_ms. */
  uint64_t call_timeout_ms;
  /* For the operator's lists. NULL: the program's name. */
  const char* client_name;
  uint32_t flags; /* HP_CONNECT_* */
  uint32_t reserved;
} hp_connect_options;

#define HP_CONNECT_OPTIONS_INIT \
  { sizeof(hp_connect_options), 2000, 10000, NULL, 0, 0 }

/* Connects to the daemon whose sockets are in `dir`; NULL means the environment
 * variable HUGEPOOL_SOCKET_DIR or, without it, /run/hugepool. Does not wait for
 * a daemon that is not there. If the connection breaks later, it is made anew
 * by the next call, or by a thread of the library while there are leases, and
 * the leases are taken up again.
 * Errors: HP_UNAVAILABLE: nobody listens there. HP_PERMISSION_DENIED: not for
 * this user. HP_INVALID_ARGUMENT: the path is too long for a socket. */
HP_EXPORT int hp_connect(const char* dir, hp_client** client, hp_error* error);

/* The same with options, which may be NULL. */
HP_EXPORT int hp_connect_with(const char* dir,
                              const hp_connect_options* options,
                              hp_client** client, hp_error* error);

/* Ends the handle; NULL does nothing. Leases stay as they are: the connection
 * is kept until the last of them is released or forgotten. No other call on
 * the client may be under way. */
HP_EXPORT void hp_close(hp_client* client);

/* ------------------------------------------------------------ the request */

/* How long a lease lives. */
typedef enum hp_lifetime {
  /* With the client: ends when it is closed or the process ends. */
  HP_LIFETIME_SESSION = 1,
  /* As long as any descriptor or mapping of it exists, in any process. */
  HP_LIFETIME_MEMORY = 2,
  /* Until it is released by id or name, or its time to live has passed. */
  HP_LIFETIME_NAMED = 3
} hp_lifetime;

typedef enum hp_placement {
  HP_PLACEMENT_ANY = 0,       /* where most is clean */
  HP_PLACEMENT_BIND = 1,      /* only on the listed nodes */
  HP_PLACEMENT_PREFER = 2,    /* the listed nodes first, then any other */
  HP_PLACEMENT_INTERLEAVE = 3 /* spread over the listed nodes; none: all */
} hp_placement;

/* Stands in a list of nodes for the one the calling thread runs on, or the
 * nearest with memory where that has none. */
#define HP_NODE_LOCAL UINT32_MAX

/* Do not map: the descriptors are all that is wanted. */
#define HP_REQUEST_NO_MAP (1u << 0)
/* Keep the mapping from forked children (MADV_DONTFORK). Costs the sharing of
 * page tables with the daemon, so that the first touch of 2 MiB pages is
 * slower. */
#define HP_REQUEST_DONTFORK (1u << 1)
/* Seal the descriptors against shrinking, for vhost-user peers. Such a lease
 * cannot be revoked without ending its holders. */
#define HP_REQUEST_SEALED (1u << 2)
/* The descriptors may be opened again by path (QEMU does). */
#define HP_REQUEST_REOPENABLE (1u << 3)
/* A promise: no descriptor leaves the trust domain, no pin (io_uring, VFIO,
 * RDMA, vmsplice) outlives the release. Lets the daemon reuse the memory
 * faster where the operator allows it. */
#define HP_REQUEST_PRIVATE (1u << 4)

typedef struct hp_request_options {
  size_t size;
  uint64_t max_wait_ms;     /* how long to wait for memory; 0: do not wait */
  uint64_t time_to_live_ms; /* NAMED only; 0: until released */
  const char* name;         /* NAMED only, and needed there */
  int32_t lifetime;         /* an hp_lifetime */
  uint32_t flags;           /* HP_REQUEST_* */
} hp_request_options;

#define HP_REQUEST_OPTIONS_INIT \
  { sizeof(hp_request_options), 0, 0, NULL, HP_LIFETIME_SESSION, 0 }

/* One stretch of memory, mapped as one contiguous range. */
typedef struct hp_segment_options {
  size_t size;
  uint64_t bytes;             /* rounded up to whole pages by the daemon */
  uint64_t hot_offset;        /* what will be touched first, below bytes; a hint */
  const uint64_t* page_sizes; /* in order of preference, in bytes */
  size_t page_size_count;     /* 0: any that suits */
  const uint32_t* nodes;      /* NUMA nodes by the kernel's numbers */
  size_t node_count;
  int32_t placement;    /* an hp_placement */
  uint32_t max_extents; /* at most so many descriptors; 0: as may be */
  /* Begin as a copy of another lease of the same domain (hp_lease_id), from that
   * offset in its segments laid end to end; NULL: as zeros. A snapshot if nobody
   * writes to it until the call returns. */
  const char* copy_from;
  uint64_t copy_offset;
} hp_segment_options;

#define HP_SEGMENT_OPTIONS_INIT \
  {                                                                      \
    sizeof(hp_segment_options), 0, 0, NULL, 0, NULL, 0, HP_PLACEMENT_ANY, \
        0, NULL, 0                                                        \
  }

typedef struct hp_request hp_request;

/* Makes a request without segments; hp_request_free ends it. `options` may be
 * NULL for the defaults. HP_INVALID_ARGUMENT: an unknown flag or lifetime. */
HP_EXPORT int hp_request_new(const hp_request_options* options,
                             hp_request** request, hp_error* error);

/* Adds a segment. All segments are granted together, or none.
 * HP_INVALID_ARGUMENT: bytes is 0 or above 2^62, or an unknown placement. */
HP_EXPORT int hp_request_add_segment(hp_request* request,
                                     const hp_segment_options* segment,
                                     hp_error* error);

/* Adds a label, which shows in the operator's lists. */
HP_EXPORT int hp_request_add_label(hp_request* request, const char* key,
                                   const char* value, hp_error* error);

/* Ends the handle; NULL does nothing. A request can be used for any number of
 * hp_acquire calls before. */
HP_EXPORT void hp_request_free(hp_request* request);

/* -------------------------------------------------------------- the lease */

typedef struct hp_lease hp_lease;

typedef struct hp_segment_info {
  size_t size;
  void* address;      /* NULL with HP_REQUEST_NO_MAP */
  uint64_t bytes;     /* as granted: whole pages, at least what was asked */
  uint64_t page_size; /* bytes */
} hp_segment_info;

#define HP_SEGMENT_INFO_INIT \
  { sizeof(hp_segment_info), NULL, 0, 0 }

typedef struct hp_extent_info {
  size_t size;
  uint64_t offset; /* where it lies within its segment */
  uint64_t bytes;
  uint64_t page_size;
  int32_t fd;       /* a memfd; belongs to the lease: dup it to keep it */
  uint32_t segment; /* index of its segment */
  uint32_t node;    /* where its pages are, as verified */
  uint32_t seals;   /* F_SEAL_* bits */
} hp_extent_info;

#define HP_EXTENT_INFO_INIT \
  { sizeof(hp_extent_info), 0, 0, 0, -1, 0, 0, 0 }

/* Leases what `request` asks for. The memory is zero, present, and mapped
 * shared for reading and writing; segments of 1 GiB and more begin at a
 * multiple of 1 GiB. Waits up to the request's max_wait_ms for memory, and up
 * to the client's times for the daemon.
 * Errors: HP_RESOURCE_EXHAUSTED with reason POOL_SHORT, QUOTA or
 * TOO_MANY_EXTENTS, or without a reason where a limit of this process is in
 * the way (open files, vm.max_map_count; the message names it).
 * HP_DEADLINE_EXCEEDED with WAIT_EXPIRED. HP_FAILED_PRECONDITION with
 * NEVER_FITS. HP_INVALID_ARGUMENT: no such node or page size.
 * HP_PERMISSION_DENIED. HP_UNAVAILABLE: no daemon, or draining. */
HP_EXPORT int hp_acquire(hp_client* client, const hp_request* request,
                         hp_lease** lease, hp_error* error);

/* Gets the memory of a NAMED lease of the caller's trust domain, contents and
 * all. `flags`: HP_REQUEST_NO_MAP, HP_REQUEST_DONTFORK.
 * HP_NOT_FOUND with LEASE_GONE: there is none of that name. */
HP_EXPORT int hp_attach(hp_client* client, const char* name, uint32_t flags,
                        hp_lease** lease, hp_error* error);

/* Unmaps the memory, closes the descriptors, and ends the lease. The handle is
 * gone whatever is returned; NULL does nothing. An error says that the daemon
 * could not be told: it ends SESSION and MEMORY leases by itself then.
 * HP_NOT_FOUND: the lease had ended already. */
HP_EXPORT int hp_release(hp_lease* lease, hp_error* error);

/* A part of a segment, in whole pages of the segment's page_size. */
typedef struct hp_range {
  size_t size;
  uint64_t offset; /* within the segment */
  uint64_t bytes;
  uint32_t segment; /* its index */
  uint32_t reserved;
} hp_range;

#define HP_RANGE_INIT \
  { sizeof(hp_range), 0, 0, 0, 0 }

/* More ranges than this that do not touch each other are refused. */
#define HP_MAX_RANGES 65536

/* Gives up parts of a lease; the rest is held on, and hp_release ends all. One
 * call takes ranges of any segments and extents, in any order. All of them are
 * released, or none.
 *
 * The call is a promise not to touch the ranges any more: at any moment from then
 * on their memory can be given to others. They stay charged until the daemon has
 * taken them.
 *
 * In this process the library sees to it: it makes the ranges inaccessible before
 * it asks the daemon, so that a touch, during the call too, is a SIGSEGV. Their
 * addresses stay taken until the lease is released or forgotten. If the call is
 * refused they are accessible again. Where no answer came (mostly HP_UNAVAILABLE or
 * HP_DEADLINE_EXCEEDED; the message says so) they stay inaccessible, as the daemon
 * may have taken them: the same ranges can be given to a call again, which is
 * HP_OK if they have been taken. They are gone for this process whatever comes of
 * that.
 *
 * The library does not see to what the program shares or passes on, which the
 * promise includes: other processes, children forked before the call, other
 * mappings and handles of the lease (a later hp_attach maps all of it), and reads
 * and writes through descriptors or pins. A released part is a hole once the
 * daemon has taken it: a touch of it takes a page from the machine's pool, or is
 * a SIGBUS.
 *
 * What remains of the 1 GiB of 2 MiB pages around a range is faulted in anew at
 * the next touch, page by page; its content stays. Each range takes up to two of
 * the process's mappings (vm.max_map_count), so that fewer, larger ones are
 * better. None of this with HP_REQUEST_NO_MAP.
 *
 * Errors: HP_INVALID_ARGUMENT with BAD_REQUEST: no ranges at all, or one is not in
 * its segment or not of whole pages, or two overlap, or they are too many.
 * HP_FAILED_PRECONDITION: part of one was released before, or the daemon's kernel
 * cannot tell who holds memory, or a forked child calls. HP_RESOURCE_EXHAUSTED: vm.max_map_count is in the way. HP_NOT_FOUND with
 * LEASE_GONE: the lease has ended. HP_UNIMPLEMENTED: an older daemon. */
HP_EXPORT int hp_release_ranges(hp_lease* lease, const hp_range* ranges,
                                size_t count, hp_error* error);

/* Like hp_release, but does not end the lease: a NAMED one stays, a MEMORY one
 * ends if nobody else holds it, a SESSION one when the client is closed. */
HP_EXPORT void hp_lease_forget(hp_lease* lease);

/* Ends a NAMED lease without attaching to it. */
HP_EXPORT int hp_release_name(hp_client* client, const char* name,
                              hp_error* error);

/* The daemon's id of the lease: unique for ever, opaque. */
HP_EXPORT const char* hp_lease_id(const hp_lease* lease);

/* How long hp_acquire waited for memory, in milliseconds. */
HP_EXPORT uint64_t hp_lease_waited_ms(const hp_lease* lease);

/* Segments are in the order of the request. HP_OUT_OF_RANGE: no such index. */
HP_EXPORT size_t hp_lease_segment_count(const hp_lease* lease);
HP_EXPORT int hp_lease_segment(const hp_lease* lease, size_t index,
                               hp_segment_info* info);

/* Extents: one descriptor each. HP_OUT_OF_RANGE: no such index. */
HP_EXPORT size_t hp_lease_extent_count(const hp_lease* lease);
HP_EXPORT int hp_lease_extent(const hp_lease* lease, size_t index,
                              hp_extent_info* info);

typedef enum hp_standing {
  HP_STANDING_HELD = 0,
  /* The operator wants it back: release it soon. Later its memory faults. */
  HP_STANDING_REVOKED = 1,
  /* The daemon was restarted and does not know it. The memory stays usable as
   * long as it is mapped. */
  HP_STANDING_LOST = 2
} hp_standing;

/* What is known of the lease in this process; does not wait for the daemon. */
HP_EXPORT hp_standing hp_lease_standing(const hp_lease* lease);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HUGEPOOL_CLIENT_HUGEPOOL_H_ */
