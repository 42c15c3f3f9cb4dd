// What Acquire is made of, without hugepool: a unary call of gRPC over a unix
// socket, and a descriptor passed over another. Each with a server in a process
// of its own, as the daemon is.
#ifndef HUGEPOOL_TESTS_BENCH_BARE_H_
#define HUGEPOOL_TESTS_BENCH_BARE_H_

#include <memory>
#include <string>

#include "daemon/base/unique_fd.h"
#include "hugepool/v1/hugepool.grpc.pb.h"

namespace hugepool::bench {

// Serves on the unix socket `path` until the process is killed; prints "ready"
// first. The echo is GetLease, which answers with the id it was asked for; the
// server accepts connections itself and hands them to gRPC, as the daemon does.
[[noreturn]] void ServeEcho(const std::string& path);
// For every byte it gets, sends a byte with a descriptor.
[[noreturn]] void ServeFds(const std::string& path);

// The clients; what fails ends the process.
class EchoClient {
 public:
  explicit EchoClient(const std::string& path);
  void Call(const std::string& text);

 private:
  std::unique_ptr<v1::HugePool::Stub> stub_;
};

class FdsClient {
 public:
  explicit FdsClient(const std::string& path);
  // Asks, receives a descriptor, closes it.
  void RoundTrip();

 private:
  UniqueFd socket_;
};

}  // namespace hugepool::bench

#endif  // HUGEPOOL_TESTS_BENCH_BARE_H_
