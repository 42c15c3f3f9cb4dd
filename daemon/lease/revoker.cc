#include "daemon/lease/revoker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"

namespace hugepool {
namespace {

// Processes that end give their memory back within milliseconds; new ones may get
// it from a socket meanwhile.
constexpr absl::Duration kLookEvery = absl::Milliseconds(20);
constexpr absl::Duration kHuntFor = absl::Seconds(5);

Identity Operator() {
  Identity who;
  who.admin = true;
  return who;
}

std::set<sys::InodeId> InodesOf(const Lease& lease) {
  std::set<sys::InodeId> inodes;
  for (const TakenExtent& e : lease.extents) {
    inodes.insert(sys::InodeId(e.inode));
  }
  return inodes;
}

}  // namespace

std::optional<uint64_t> Revoker::Note(Done done) {
  {
    MutexLock lock(&mu_);
    if (!stopped_) {
      waiting_.emplace(next_, std::move(done));
      return next_++;
    }
  }
  done(absl::UnavailableError("the daemon is stopping"));
  return std::nullopt;
}

void Revoker::Tell(uint64_t number, absl::StatusOr<Outcome> outcome) {
  Done done;
  {
    MutexLock lock(&mu_);
    auto it = waiting_.find(number);
    if (it == waiting_.end()) return;  // stopped
    done = std::move(it->second);
    waiting_.erase(it);
  }
  done(std::move(outcome));
}

void Revoker::Revoke(const Order& order, Done done) {
  const auto number = Note(std::move(done));
  if (!number.has_value()) return;
  Log(LogLevel::kInfo,
      absl::StrCat(ToWire(order.lease), " is revoked by an admin",
                   order.kill ? ", and its holders are ended" : ""));
  if (order.kill) {
    deps_.executor->Post(
        [this, number = *number, order] { StartHunt(number, order); });
    return;
  }
  deps_.manager->Revoke(order.lease, order.notice,
                        [this, number = *number](absl::StatusOr<Bytes> bytes) {
                          if (!bytes.ok()) return Tell(number, bytes.status());
                          Tell(number, Outcome{*bytes, 0});
                        });
}

void Revoker::StartHunt(uint64_t number, const Order& order) {
  const auto lease = deps_.manager->Get(Operator(), order.lease, "");
  if (!lease.ok()) return Tell(number, lease.status());
  Hunt hunt{number, order.lease, lease->size(), {}, {}, ""};
  deps_.sender->SendRevokeNotice(lease->session, lease->id, order.notice);
  if (order.notice <= absl::ZeroDuration()) return EndAndHunt(std::move(hunt));
  deps_.executor->PostAt(deps_.clock->Now() + order.notice,
                         [this, hunt = std::move(hunt)]() mutable {
                           EndAndHunt(std::move(hunt));
                         });
}

void Revoker::EndAndHunt(Hunt hunt) {
  const absl::Status ended = deps_.manager->EndForKill(hunt.lease);
  if (!ended.ok() && !absl::IsNotFound(ended)) return Tell(hunt.number, ended);
  hunt.until = deps_.clock->Now() + kHuntFor;
  HuntOn(std::move(hunt));
}

void Revoker::HuntOn(Hunt hunt) {
  const auto lease = deps_.manager->Get(Operator(), hunt.lease, "");
  if (!lease.ok()) {  // all of it is back
    return Tell(hunt.number,
                Outcome{hunt.bytes, static_cast<uint32_t>(hunt.killed.size())});
  }
  const std::set<sys::InodeId> inodes = InodesOf(*lease);
  const sys::Holders::Found found = deps_.holders->Find(inodes);
  if (deps_.clock->Now() >= hunt.until) {
    return Tell(hunt.number, StillHeld(hunt, found));
  }
  for (const sys::HolderProcess& process : found.processes) {
    const absl::Status killed = deps_.holders->Kill(process.pid, inodes);
    if (!killed.ok()) {
      hunt.refused = std::string(killed.message());
    } else if (hunt.killed.insert(process.pid).second) {
      Log(LogLevel::kInfo,
          absl::StrCat("ended process ", process.pid, " (", process.command,
                       "), which had memory of ", ToWire(hunt.lease)));
    }
  }
  deps_.executor->PostAt(
      deps_.clock->Now() + kLookEvery,
      [this, hunt = std::move(hunt)]() mutable { HuntOn(std::move(hunt)); });
}

absl::Status Revoker::StillHeld(const Hunt& hunt,
                                const sys::Holders::Found& found) const {
  std::string who;
  for (const sys::HolderProcess& p : found.processes) {
    absl::StrAppend(&who, who.empty() ? "" : ", ", p.pid, " (", p.command, ")");
  }
  if (who.empty()) who = "nobody that /proc shows";
  std::string why = hunt.refused;
  if (why.empty() && found.hidden > 0) {
    why = absl::StrCat(found.hidden,
                       " processes cannot be looked into; give the daemon "
                       "CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and CAP_KILL");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      ToWire(hunt.lease), " has ended, but its memory is still held by ", who,
      why.empty() ? "" : ": ", why,
      "; it comes back when they let go of it"));
}

void Revoker::Stop() {
  std::map<uint64_t, Done> waiting;
  {
    MutexLock lock(&mu_);
    stopped_ = true;
    waiting.swap(waiting_);
  }
  for (auto& [number, done] : waiting) {
    done(absl::UnavailableError("the daemon is stopping"));
  }
}

}  // namespace hugepool
