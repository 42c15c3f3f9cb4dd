// Accepts the gRPC connections itself, so that every call has an identity given
// by the kernel.
#ifndef HUGEPOOL_DAEMON_SERVICE_ACCEPTOR_H_
#define HUGEPOOL_DAEMON_SERVICE_ACCEPTOR_H_

#include <sys/types.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/unique_fd.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/types.h"
#include "daemon/service/accepting.h"
#include "daemon/service/identities.h"
#include "daemon/service/peer.h"
#include "grpcpp/server.h"

namespace hugepool::service {

// What a listening socket is for.
struct ListenerSpec {
  std::string dir;     // absolute
  AccessRule access;   // who may connect
  std::string domain;  // of all who come this way; empty: one per uid, "uid:N"
  bool admin = false;  // admin.sock, in place of grpc.sock and fd.sock
};

// The identity of a peer that came through `spec`, or why it may not.
Caller CallerOf(const Peer& peer, const ListenerSpec& spec, Domains* domains,
                uid_t daemon_uid);

// One epoll thread for all gRPC and admin sockets. Add() before Start(); the
// sockets stay the caller's and must outlive Stop().
class Acceptor {
 public:
  Acceptor(Identities* identities, Domains* domains, uid_t daemon_uid)
      : identities_(identities), domains_(domains), daemon_uid_(daemon_uid) {}
  ~Acceptor() { Stop(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  void Add(int socket, const ListenerSpec& spec) {
    sockets_.push_back({socket, spec});
  }
  // Hands connections to `server`, which must outlive Stop(). A peer that may
  // not connect gets its connection all the same, and PERMISSION_DENIED for
  // every call: a bare close would say nothing.
  absl::Status Start(grpc::Server* server);
  // No connection is accepted after it. Idempotent.
  void Stop();

 private:
  struct Socket {
    int fd;
    ListenerSpec spec;
  };
  void Run();
  void Take(UniqueFd connection, const ListenerSpec& spec);

  Identities* const identities_;
  Domains* const domains_;
  const uid_t daemon_uid_;
  std::vector<Socket> sockets_;
  grpc::Server* server_ = nullptr;
  UniqueFd epoll_;
  UniqueFd stop_;  // eventfd
  Accepting accepting_;  // of the thread
  std::thread thread_;
};

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_ACCEPTOR_H_
