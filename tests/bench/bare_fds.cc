#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/bench/bare.h"

namespace hugepool::bench {
namespace {

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_un Address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

// A message of one byte with room for one descriptor.
struct OneFd {
  OneFd() {
    iov = {&byte, 1};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  char byte = 1;
  iovec iov;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
};

void SendFd(int socket, int fd) {
  OneFd message;
  cmsghdr* const c = CMSG_FIRSTHDR(&message.header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  if (sendmsg(socket, &message.header, MSG_NOSIGNAL) != 1) Die("sendmsg");
}

UniqueFd ReceiveFd(int socket) {
  OneFd message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) Die("recvmsg");
  const cmsghdr* const c = CMSG_FIRSTHDR(&message.header);
  if (c == nullptr || c->cmsg_type != SCM_RIGHTS) Die("no descriptor");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace

void ServeFds(const std::string& path) {
  const sockaddr_un address = Address(path);
  const UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    Die(path.c_str());
  }
  const UniqueFd memory(memfd_create("bare", MFD_CLOEXEC));
  std::puts("ready");
  std::fflush(stdout);
  const UniqueFd connection(
      accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  char byte;
  while (recv(connection.get(), &byte, 1, 0) == 1) {
    SendFd(connection.get(), memory.get());
  }
  std::exit(0);
}

FdsClient::FdsClient(const std::string& path)
    : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = Address(path);
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof address) != 0) {
    Die(path.c_str());
  }
}

void FdsClient::RoundTrip() {
  const char byte = 1;
  if (send(socket_.get(), &byte, 1, MSG_NOSIGNAL) != 1) Die("send");
  const UniqueFd fd = ReceiveFd(socket_.get());
}

}  // namespace hugepool::bench
