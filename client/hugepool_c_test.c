/* The interface compiles as C, and its refusals need no daemon. */
#include "client/hugepool.h"

#include <stdio.h>
#include <string.h>

static int failures = 0;

static void Expect(int ok, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "failed: %s\n", what);
}

int main(void) {
  hp_error error = HP_ERROR_INIT;
  hp_client* client = (hp_client*)&error;
  Expect(hp_connect("/tmp/no-such-directory", &client, &error) ==
             HP_UNAVAILABLE,
         "no daemon");
  Expect(client == NULL, "the handle is NULL after a failure");
  Expect(error.code == HP_UNAVAILABLE && error.retryable == 1, "error fields");
  Expect(strstr(error.message, "is hugepoold running?") != NULL, "message");
  Expect(hp_connect("/tmp/no-such-directory", &client, NULL) == HP_UNAVAILABLE,
         "without an error");
  Expect(hp_connect("/tmp", NULL, NULL) == HP_INVALID_ARGUMENT, "no client");

  hp_request* request = NULL;
  hp_request_options options = HP_REQUEST_OPTIONS_INIT;
  options.flags = 1u << 31;
  Expect(hp_request_new(&options, &request, &error) == HP_INVALID_ARGUMENT,
         "unknown flag");
  options.flags = 0;
  options.size = 0;
  Expect(hp_request_new(&options, &request, &error) == HP_INVALID_ARGUMENT,
         "no size");
  Expect(hp_request_new(NULL, &request, &error) == HP_OK, "defaults");

  hp_segment_options segment = HP_SEGMENT_OPTIONS_INIT;
  Expect(hp_request_add_segment(request, &segment, &error) ==
             HP_INVALID_ARGUMENT,
         "no bytes");
  segment.bytes = UINT64_C(1) << 63;
  Expect(hp_request_add_segment(request, &segment, &error) ==
             HP_INVALID_ARGUMENT,
         "too many bytes");
  segment.bytes = 4096;
  segment.placement = HP_PLACEMENT_BIND;
  Expect(hp_request_add_segment(request, &segment, &error) ==
             HP_INVALID_ARGUMENT,
         "BIND without nodes");
  segment.placement = HP_PLACEMENT_ANY;
  Expect(hp_request_add_segment(request, &segment, &error) == HP_OK, "valid");
  Expect(hp_request_add_label(request, "", "v", &error) == HP_INVALID_ARGUMENT,
         "a label without a key");

  hp_lease* lease = NULL;
  Expect(hp_acquire(NULL, request, &lease, &error) == HP_INVALID_ARGUMENT,
         "no client");
  hp_request_free(request);
  hp_request_free(NULL);
  hp_close(NULL);
  hp_lease_forget(NULL);
  Expect(hp_release(NULL, &error) == HP_OK, "release NULL");
  hp_range range = HP_RANGE_INIT;
  Expect(range.size == sizeof(hp_range), "HP_RANGE_INIT");
  Expect(hp_release_ranges(NULL, &range, 1, &error) == HP_INVALID_ARGUMENT,
         "ranges of no lease");
  Expect(strcmp(hp_strerror(HP_RESOURCE_EXHAUSTED), "resource exhausted") == 0,
         "hp_strerror");
  Expect(strcmp(hp_strerror(99), "unknown code") == 0, "hp_strerror(99)");
  Expect(strcmp(hp_strreason(HP_REASON_QUOTA), "quota") == 0, "hp_strreason");
  Expect(hp_api_version() == 1001, "version");
  return failures != 0;
}
