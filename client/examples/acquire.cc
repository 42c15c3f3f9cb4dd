// Leases 64 MiB of zeroed huge pages, writes to them, and gives them back.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "client/hugepool.hpp"

int main() {
  auto client = hugepool::Client::Connect();
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message());
    return 1;
  }
  auto lease = client->Acquire(hugepool::Request()
                                   .Segment(64 << 20)
                                   .Wait(std::chrono::seconds(5)));
  if (!lease) {
    std::fprintf(stderr, "%s. %s\n", lease.error().message(),
                 lease.error().hint());
    return 1;
  }
  const hugepool::MemorySegment memory = lease->segment(0);
  std::memset(memory.data, 1, memory.size);
  std::printf("lease %s: %zu bytes at %p\n", lease->id(), memory.size,
              memory.data);
  return 0;  // the lease ends with its object
}
