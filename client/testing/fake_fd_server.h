// The fd channel's daemon side for FakeDaemon.
#ifndef HUGEPOOL_CLIENT_TESTING_FAKE_FD_SERVER_H_
#define HUGEPOOL_CLIENT_TESTING_FAKE_FD_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "daemon/base/mutex.h"
#include "daemon/base/unique_fd.h"
#include "hugepool/v1/fdchannel.pb.h"

namespace hugepool::testing {

// One thread polls the listener and all connections. Thread-safe.
class FakeFdServer {
 public:
  // `on_nack` is called with the lease of each GrantNack, without locks.
  // `leases_of` gives the ids that a resumed session still has.
  FakeFdServer(std::string path,
               std::function<void(const std::string&)> on_nack,
               std::function<std::vector<std::string>()> leases);
  ~FakeFdServer();

  void Start();
  void Stop();
  void ForgetSessions();

  bool KnowsSession(const std::string& secret) const;
  // Sends a Grant in frames of at most 253 descriptors; returns how many, or 0
  // where the session has no connection.
  uint32_t SendGrant(const std::string& secret, v1::Grant grant,
                     absl::Span<const int> fds);
  // To every connection.
  void Broadcast(const v1::ServerFrame& frame);
  // Who answers calls (or does not: nullopt); without it the Welcome does not
  // offer them. To be set before Start(). Called on the server's thread, without
  // locks.
  using OnCall = std::function<std::optional<v1::Answer>(
      const std::string& secret, const v1::Call&)>;
  void set_on_call(OnCall on_call) { on_call_ = std::move(on_call); }
  // Presented leases are adopted if this says so.
  void set_adopt(bool adopt);

  std::vector<std::string> acked() const;
  std::vector<v1::GrantNack> nacked() const;
  size_t presented() const;
  // Calls that came this way, and request ids of those given up.
  size_t calls() const;
  std::vector<std::string> cancelled() const;
  void WaitForAnswers(size_t n) const;
  void WaitForCancelled(size_t n) const;
  // Until `n` sessions were resumed in all.
  void WaitForResumed(size_t n) const;

 private:
  struct Peer {
    UniqueFd fd;
    std::string secret;
  };

  void Loop();
  void Accept();
  // False: the connection is over.
  bool ReadOne(Peer* peer);
  void SendAnswer(const Peer& peer, v1::ServerFrame reply);
  void Welcome(Peer* peer, const v1::Hello& hello) HP_REQUIRES(mu_);

  const std::string path_;
  const std::function<void(const std::string&)> on_nack_;
  const std::function<std::vector<std::string>()> leases_;
  OnCall on_call_;
  UniqueFd listener_;
  UniqueFd stop_;
  std::thread thread_;

  mutable Mutex mu_;
  mutable CondVar answered_;
  std::vector<std::unique_ptr<Peer>> peers_ HP_GUARDED_BY(mu_);
  std::set<std::string> secrets_ HP_GUARDED_BY(mu_);
  uint64_t next_secret_ HP_GUARDED_BY(mu_) = 1;
  std::vector<std::string> acked_ HP_GUARDED_BY(mu_);
  std::vector<v1::GrantNack> nacked_ HP_GUARDED_BY(mu_);
  std::vector<std::string> cancelled_ HP_GUARDED_BY(mu_);
  size_t calls_ HP_GUARDED_BY(mu_) = 0;
  size_t resumed_ HP_GUARDED_BY(mu_) = 0;
  size_t presented_ HP_GUARDED_BY(mu_) = 0;
  bool adopt_ HP_GUARDED_BY(mu_) = false;
};

}  // namespace hugepool::testing

#endif  // HUGEPOOL_CLIENT_TESTING_FAKE_FD_SERVER_H_
