/* Leases 64 MiB of zeroed huge pages, writes to them, and gives them back. */
#include <stdio.h>
#include <string.h>

#include "client/hugepool.h"

static int Fail(const hp_error* error) {
  fprintf(stderr, "%s. %s\n", error->message, error->hint);
  return 1;
}

int main(void) {
  hp_error error = HP_ERROR_INIT;
  hp_client* client;
  if (hp_connect(NULL, &client, &error) != HP_OK) return Fail(&error);

  hp_request* request;
  hp_segment_options segment = HP_SEGMENT_OPTIONS_INIT;
  segment.bytes = 64 << 20;
  hp_lease* lease;
  if (hp_request_new(NULL, &request, &error) != HP_OK ||
      hp_request_add_segment(request, &segment, &error) != HP_OK ||
      hp_acquire(client, request, &lease, &error) != HP_OK) {
    return Fail(&error);
  }
  hp_request_free(request);

  hp_segment_info info = HP_SEGMENT_INFO_INIT;
  hp_lease_segment(lease, 0, &info);
  memset(info.address, 1, info.bytes);
  printf("lease %s: %llu bytes at %p\n", hp_lease_id(lease),
         (unsigned long long)info.bytes, info.address);

  if (hp_release(lease, &error) != HP_OK) return Fail(&error);
  hp_close(client);
  return 0;
}
