#include "client/internal/transport.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/internal/errors.h"
#include "client/internal/unix_socket.h"
#include "daemon/base/unique_fd.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace hugepool::client {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

// 0, or the errno with which a connection to `path` fails.
int TryConnect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd fd(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno;
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof address) == 0
             ? 0
             : errno;
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& path) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // In spite of its name the time that one attempt may take. Where nobody
  // listens a unix socket says so at once; where somebody does, a busy machine
  // can keep the greeting waiting.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Two clients in one process have a connection each: the daemon tells them
  // apart by it.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel("unix:" + path,
                                   grpc::InsecureChannelCredentials(), args);
}

void SetDeadline(grpc::ClientContext* context, absl::Time deadline) {
  context->set_deadline(absl::ToChronoTime(deadline));
}

absl::Status CallStatus(const grpc::Status& status, const std::string& path) {
  absl::Status out = FromGrpc(status);
  if (!IsTransportFailure(out)) return out;
  // gRPC names neither the cause nor the remedy. This asks again, off the hot
  // path, only to find the words.
  const int error_number = TryConnect(path);
  if (error_number == 0) {
    return absl::UnavailableError(absl::StrCat("the connection to ", path,
                                               " broke (", out.message(), ")"));
  }
  return ConnectError(error_number, path);
}

}  // namespace hugepool::client
