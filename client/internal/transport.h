// gRPC over the daemon's unix sockets.
#ifndef HUGEPOOL_CLIENT_INTERNAL_TRANSPORT_H_
#define HUGEPOOL_CLIENT_INTERNAL_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace hugepool::client {

// A channel to the unix socket `path` (absolute). It connects at the first
// call; no proxy is ever asked (http_proxy is for other targets), and a broken
// connection is tried again after 100 ms to 1 s. Never fails; thread-safe.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& path);

// Sets when `context`'s call must be over.
void SetDeadline(grpc::ClientContext* context, absl::Time deadline);

// The status of a call over a channel to `path`. Where nobody listens it says
// so instead of gRPC's own words.
absl::Status CallStatus(const grpc::Status& status, const std::string& path);

}  // namespace hugepool::client

#endif  // HUGEPOOL_CLIENT_INTERNAL_TRANSPORT_H_
