#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/internal/transport.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "tests/bench/bare.h"

namespace hugepool::bench {
namespace {

class Echo final : public v1::HugePool::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetLease(grpc::CallbackServerContext* context,
                                     const v1::GetLeaseRequest* request,
                                     v1::GetLeaseResponse* response) override {
    response->mutable_lease()->set_lease_id(request->lease_id());
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

UniqueFd Listen(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) !=
          0 ||
      listen(fd.get(), 8) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  return fd;
}

}  // namespace

void ServeEcho(const std::string& path) {
  const UniqueFd listener = Listen(path);
  Echo echo;
  grpc::ServerBuilder builder;
  builder.RegisterService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) std::exit(1);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    const int connection =
        accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      grpc::AddInsecureChannelFromFd(server.get(), connection);
    }
  }
}

EchoClient::EchoClient(const std::string& path)
    : stub_(v1::HugePool::NewStub(client::OpenChannel(path))) {}

void EchoClient::Call(const std::string& text) {
  grpc::ClientContext context;
  v1::GetLeaseRequest request;
  v1::GetLeaseResponse response;
  request.set_lease_id(text);
  const grpc::Status status = stub_->GetLease(&context, request, &response);
  if (!status.ok() || response.lease().lease_id() != text) {
    std::fprintf(stderr, "echo: %s\n", status.error_message().c_str());
    std::exit(1);
  }
}

}  // namespace hugepool::bench
