// Acquire, Attach and Release over the fd channel.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/refusal.h"
#include "daemon/service/fd_channel.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

// An extent takes less than 128 bytes on the wire, what else is in an answer
// less than 16 KiB: an answer of so many is a frame.
constexpr int kExtentsPerAnswer = 256;

void Send(FdConnection& connection, const v1::ServerFrame& frame) {
  OutFrame out;
  out.bytes = frame.SerializeAsString();
  out.answer = true;
  // A client must not wait for an answer that will not come: without room for
  // it the connection ends, and with it the call.
  if (absl::IsResourceExhausted(connection.Send(std::move(out)))) {
    connection.Hangup();
  }
}

// Sends `frame`, an Answer with `lease` in it, in as many frames as the lease's
// extents need. The later ones hold nothing else, so that merging all is the whole.
void SendInParts(FdConnection& connection, v1::ServerFrame* frame,
                 v1::Lease* lease) {
  google::protobuf::RepeatedPtrField<v1::Extent> extents;
  extents.Swap(lease->mutable_extents());
  int at = 0;
  do {
    if (at > 0) lease->Clear();
    for (int i = 0; i < kExtentsPerAnswer && at < extents.size(); ++i, ++at) {
      *lease->add_extents() = std::move(extents[at]);
    }
    frame->mutable_answer()->set_more(at < extents.size());
    Send(connection, *frame);
  } while (at < extents.size());
}

// An Answer with what ToGrpc() puts into a call's status.
v1::ServerFrame AnswerTo(uint64_t call_id, const absl::Status& status) {
  v1::ServerFrame frame;
  v1::Answer* const answer = frame.mutable_answer();
  answer->set_call_id(call_id);
  // The numbers of absl's codes are those of gRPC's.
  answer->set_code(static_cast<int>(status.code()));
  answer->set_text(std::string(status.message()));
  if (auto detail = AnswerDetailOf(status); detail.has_value()) {
    *answer->mutable_error() = *std::move(detail);
  }
  return frame;
}

// The callback can outlive the connection, and this channel.
template <typename Reply, typename Fill>
auto Answerer(const std::shared_ptr<FdConnection>& connection,
              uint64_t call_id, Fill fill) {
  return [weak = std::weak_ptr<FdConnection>(connection), call_id,
          fill](absl::StatusOr<Reply> reply) {
    const auto connection = weak.lock();
    if (connection == nullptr) return;
    v1::ServerFrame frame = AnswerTo(call_id, reply.status());
    if (!reply.ok()) return Send(*connection, frame);
    Reply* const filled = fill(frame.mutable_answer());
    *filled = *std::move(reply);
    SendInParts(*connection, &frame, filled->mutable_lease());
  };
}

}  // namespace

void FdChannel::Called(Peer& peer, const v1::Call& call) {
  const uint64_t id = call.call_id();
  switch (call.method_case()) {
    case v1::Call::kAcquire:
      return calls_->Acquire(
          peer.session, call.acquire(),
          Answerer<v1::AcquireResponse>(
              peer.connection, id,
              [](v1::Answer* answer) { return answer->mutable_acquire(); }));
    case v1::Call::kAttach:
      return calls_->Attach(
          peer.session, call.attach(),
          Answerer<v1::AttachResponse>(
              peer.connection, id,
              [](v1::Answer* answer) { return answer->mutable_attach(); }));
    case v1::Call::kRelease:
      return Released(peer, call);
    case v1::Call::METHOD_NOT_SET:
      break;
  }
  service::Send(
      *peer.connection,
      AnswerTo(id, Refuse(RefusalReason::kBadRequest,
                          "a call of a kind that this daemon does not know",
                          "call by gRPC, or update the daemon")));
}

void FdChannel::Released(Peer& peer, const v1::Call& call) {
  auto reply = calls_->Release(peer.caller.who, call.release());
  v1::ServerFrame frame = AnswerTo(call.call_id(), reply.status());
  if (reply.ok()) {
    *frame.mutable_answer()->mutable_release() = *std::move(reply);
  }
  service::Send(*peer.connection, frame);
}

}  // namespace hugepool::service
