// What the frames of the fd channel mean.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/refusal.h"
#include "daemon/base/views.h"
#include "daemon/service/fd_channel.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kMaxClientName = 64;
constexpr size_t kMaxSecret = 64;

std::string ToWire(SessionId id) {
  return absl::StrCat("session-", absl::Hex(id.value(), absl::kZeroPad16));
}

v1::ServerFrame RevokeNotice(const std::string& lease, absl::Duration within) {
  v1::ServerFrame frame;
  frame.mutable_revoke_notice()->set_lease_id(lease);
  frame.mutable_revoke_notice()->set_within_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(within)));
  return frame;
}

}  // namespace

std::shared_ptr<FdConnection> FdChannel::ConnectionOf(SessionId session) {
  MutexLock lock(&mu_);
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : it->second;
}

// What cannot be sent is lost to a client that does not read.
void FdChannel::SendRevokeNotice(SessionId session, LeaseId lease,
                                 absl::Duration within) {
  const std::shared_ptr<FdConnection> connection = ConnectionOf(session);
  if (connection == nullptr) return;
  OutFrame out;
  out.bytes = RevokeNotice(hugepool::ToWire(lease), within).SerializeAsString();
  connection->Send(std::move(out)).IgnoreError();
}

absl::Status FdChannel::SendGrant(SessionId session, GrantFrame frame) {
  const std::shared_ptr<FdConnection> connection = ConnectionOf(session);
  if (connection == nullptr) {
    return absl::UnavailableError("the session has no fd channel now");
  }
  v1::ServerFrame message;
  v1::Grant* const grant = message.mutable_grant();
  grant->set_request_id(frame.request_id);
  grant->set_lease_id(hugepool::ToWire(frame.lease));
  grant->set_generation(frame.generation);
  grant->set_part(frame.part);
  grant->set_parts(frame.parts);
  grant->set_first_extent(frame.first_extent);
  grant->set_extents(static_cast<uint32_t>(frame.fds.size()));
  OutFrame out;
  out.bytes = message.SerializeAsString();
  out.fds = std::move(frame.fds);
  out.session = session;
  out.lease = frame.lease;
  out.generation = frame.generation;
  return connection->Send(std::move(out));
}

// What cannot be sent is lost to a client that does not read.
void FdChannel::Send(Peer& peer, const v1::ServerFrame& frame) {
  OutFrame out;
  out.bytes = frame.SerializeAsString();
  peer.connection->Send(std::move(out)).IgnoreError();
}

void FdChannel::SayGoodbye(Peer& peer, const absl::Status& why) {
  v1::ServerFrame frame;
  *frame.mutable_goodbye()->mutable_error() = DetailOf(why);
  frame.mutable_goodbye()->set_text(std::string(why.message()));
  Send(peer, frame);
  EndSession(peer, /*process_dead=*/false);
  peer.phase = Phase::kLeaving;
  peer.deadline = Clock::Real()->Now() + options_.leave_within;
  deadlines_.emplace(peer.deadline, peer.number);
}

void FdChannel::Dispatch(Peer& peer, const v1::ClientFrame& frame) {
  if ((peer.phase == Phase::kGreeting) != frame.has_hello()) {
    return SayGoodbye(
        peer, Refuse(RefusalReason::kBadFrame,
                     frame.has_hello() ? "a second Hello"
                                       : "the first frame was no Hello",
                     "say Hello once, at first"));
  }
  switch (frame.frame_case()) {
    case v1::ClientFrame::kHello:
      return Greet(peer, frame.hello());
    case v1::ClientFrame::kGrantAck:
      return Acknowledged(peer, frame.grant_ack());
    case v1::ClientFrame::kGrantNack: {
      const v1::GrantNack& nack = frame.grant_nack();
      // A grant that is over already needs no refusal.
      manager_
          ->Refuse(peer.session, LeaseIdFromWire(nack.lease_id()),
                   nack.generation(), nack.reason())
          .IgnoreError();
      return;
    }
    case v1::ClientFrame::kPresent: {
      const v1::Present& present = frame.present();
      if (present.part() + 1 < present.parts()) return;
      v1::ServerFrame answer;
      v1::PresentResult* const result = answer.mutable_present_result();
      result->set_lease_id(present.lease_id());
      result->set_adopted(false);
      result->set_reason("this daemon does not adopt presented memory");
      return Send(peer, answer);
    }
    case v1::ClientFrame::kCall:
      return Called(peer, frame.call());
    case v1::ClientFrame::kCancelCall:
      return calls_->Cancel(peer.session, frame.cancel_call().request_id());
    case v1::ClientFrame::FRAME_NOT_SET:
      break;
  }
  SayGoodbye(peer, Refuse(RefusalReason::kBadFrame,
                          "a frame of a kind that this daemon does not know",
                          "update the daemon"));
}

// A client that takes up its session can be faster than the news that its old
// connection broke. That end comes first all the same, so that what was on its
// way there is rolled back and not waited for.
void FdChannel::Supersede(const Identity& who, const std::string& secret) {
  for (auto& [number, old] : peers_) {
    if (!old.session.valid() || old.secret != secret ||
        old.caller.who.uid != who.uid || old.caller.who.domain != who.domain) {
      continue;
    }
    return SayGoodbye(old, Refuse(RefusalReason::kBadRequest,
                                  "another connection took up the session",
                                  "use the newer connection"));
  }
}

void FdChannel::Greet(Peer& peer, const v1::Hello& hello) {
  if (hello.protocol_version() != kProtocolVersion) {
    return SayGoodbye(
        peer, Refuse(RefusalReason::kWrongVersion,
                     absl::StrCat("the client speaks version ",
                                  hello.protocol_version(),
                                  " of the fd channel's protocol, this daemon "
                                  "version ",
                                  kProtocolVersion),
                     "update the older of the two"));
  }
  const std::string secret = hello.resume_secret().size() <= kMaxSecret
                                 ? hello.resume_secret()
                                 : std::string();
  if (!secret.empty()) Supersede(peer.caller.who, secret);
  const auto info = manager_->OpenSession(peer.caller.who, secret);
  if (!info.ok()) return SayGoodbye(peer, info.status());
  Log(LogLevel::kDebug,
      absl::StrCat(ToWire(info->id), " of '",
                   hello.client_name().substr(0, kMaxClientName), "', uid ",
                   peer.caller.who.uid, ", pid ", peer.caller.who.pid));
  v1::ServerFrame frame;
  v1::Welcome* const welcome = frame.mutable_welcome();
  welcome->set_protocol_version(kProtocolVersion);
  welcome->set_session_id(ToWire(info->id));
  welcome->set_session_secret(info->secret);
  welcome->set_max_fds_per_frame(kMaxFdsPerFrame);
  welcome->set_max_unacknowledged_fds(options_.max_unacknowledged_fds);
  welcome->set_acknowledge_within_ms(static_cast<uint32_t>(
      absl::ToInt64Milliseconds(options_.acknowledge_within)));
  welcome->set_domain(domains_->NameOf(peer.caller.who.domain));
  welcome->set_resumed(info->resumed);
  welcome->set_calls(true);
  for (LeaseId lease : info->leases) {
    welcome->add_leases(hugepool::ToWire(lease));
  }
  peer.session = info->id;
  peer.secret = info->secret;
  peer.epoch = info->epoch;
  peer.phase = Phase::kOpen;
  peer.deadline = absl::InfiniteFuture();
  // A client that has its Welcome can be sent grants; and no grant comes before
  // the Welcome.
  OutFrame first;
  first.bytes = frame.SerializeAsString();
  peer.connection->QueueFirst(std::move(first));
  {
    MutexLock lock(&mu_);
    sessions_[info->id] = peer.connection;
  }
  peer.connection->SendFirst();
}

void FdChannel::Acknowledged(Peer& peer, const v1::GrantAck& ack) {
  const LeaseId id = LeaseIdFromWire(ack.lease_id());
  if (manager_->Acknowledge(peer.session, id, ack.generation()).ok()) return;
  const auto lease = manager_->Get(peer.caller.who, id, "");
  if (lease.ok() && (lease->phase == LeasePhase::kHeld ||
                     lease->phase == LeasePhase::kOrphaned)) {
    return;  // said twice
  }
  // It came too late. The client believes that it holds the lease: it must
  // learn that it does not.
  Send(peer, RevokeNotice(ack.lease_id(), absl::ZeroDuration()));
}

}  // namespace hugepool::service
