// Sessions: opening, taking up again, ending; and attaching to NAMED leases.
#include <sys/random.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/lease/after.h"
#include "daemon/lease/lease_manager.h"

namespace hugepool {
namespace {

std::string NewSecret() {
  std::string secret(16, '\0');
  // 16 bytes are never cut short once the kernel's pool is initialised.
  HP_CHECK(getrandom(secret.data(), secret.size(), 0) ==
               static_cast<ssize_t>(secret.size()),
           "the kernel gives random bytes");
  return secret;
}

}  // namespace

LeaseManager::Session* LeaseManager::FindSession(SessionId id) {
  auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

absl::StatusOr<LeaseManager::SessionInfo> LeaseManager::OpenSession(
    const Identity& who, const std::string& resume_secret) {
  const std::string secret = NewSecret();
  After after;
  SessionInfo info;
  {
    MutexLock lock(&mu_);
    auto old = by_secret_.find(resume_secret);
    if (!resume_secret.empty() && old != by_secret_.end()) {
      Session& session = *sessions_.at(old->second);
      if (session.who.uid == who.uid && session.who.domain == who.domain) {
        session.connected = true;
        session.who.pid = who.pid;
        ++session.epoch;
        for (LeaseId id : session.leases) {
          Lease& lease = leases_.at(id)->lease;
          if (lease.phase != LeasePhase::kOrphaned) continue;
          lease.phase = LeasePhase::kHeld;
          Publish(LeaseNews::Kind::kResumed, lease, &after);
        }
        info = {session.id, session.secret, session.epoch, true,
                {session.leases.begin(), session.leases.end()}};
      }
    }
    if (!info.id.valid()) {
      if (sessions_.size() >= options_.max_sessions) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "there are ", sessions_.size(), " sessions already; allowed are ",
            options_.max_sessions, " (limits.max_sessions)"));
      }
      auto session = std::make_unique<Session>();
      session->id = SessionId(next_session_++);
      session->who = who;
      session->secret = secret;
      info = {session->id, secret, session->epoch, false, {}};
      by_secret_[secret] = session->id;
      sessions_.emplace(session->id, std::move(session));
    }
  }
  Run(std::move(after));
  return info;
}

void LeaseManager::CloseSession(SessionId id, uint64_t epoch,
                                bool process_dead) {
  After after;
  {
    MutexLock lock(&mu_);
    Session* session = FindSession(id);
    if (session == nullptr || session->epoch != epoch) return;
    session->connected = false;
    // What was not acknowledged is not had: the descriptors went down with the
    // connection, or nobody knows.
    const std::set<LeaseId> leases = session->leases;
    for (LeaseId lease_id : leases) {
      Entry* entry = FindEntry(lease_id);
      if (entry == nullptr) continue;
      if (entry->waiting || entry->starting) {
        entry->doomed = true;
        after.cancel_waits.push_back(lease_id);
      } else if (entry->lease.phase == LeasePhase::kGranted) {
        EndLease(*entry, LeaseNews::Kind::kRolledBack, &after);
      }
    }
    bool resumable = false;
    for (LeaseId lease_id : session->leases) {
      Entry* entry = FindEntry(lease_id);
      if (entry != nullptr && entry->lease.phase == LeasePhase::kHeld) {
        resumable = true;
      }
    }
    if (process_dead || !resumable) {
      DropSession(*session, &after);
    } else {
      for (LeaseId lease_id : session->leases) {
        Lease& lease = FindEntry(lease_id)->lease;
        if (lease.phase != LeasePhase::kHeld) continue;
        lease.phase = LeasePhase::kOrphaned;
        Publish(LeaseNews::Kind::kOrphaned, lease, &after);
      }
      deps_.executor->PostAt(deps_.clock->Now() + options_.resume_grace,
                             [this, id, epoch] { EndSession(id, epoch); });
    }
  }
  Run(std::move(after));
}

void LeaseManager::EndSession(SessionId id, uint64_t epoch) {
  After after;
  {
    MutexLock lock(&mu_);
    Session* session = FindSession(id);
    if (session == nullptr || session->epoch != epoch || session->connected) {
      return;
    }
    DropSession(*session, &after);
  }
  Run(std::move(after));
}

// Ends the session and every lease that lives by it.
void LeaseManager::DropSession(Session& session, After* after) {
  const SessionId id = session.id;
  const std::set<LeaseId> leases = session.leases;
  for (LeaseId lease_id : leases) {
    Entry* entry = FindEntry(lease_id);
    // Waiting ones are being cancelled; a grant being sent sees that it is
    // doomed.
    if (entry == nullptr || entry->waiting || entry->starting) continue;
    EndLease(*entry, LeaseNews::Kind::kReleased, after);
  }
  for (auto it = in_flight_.begin(); it != in_flight_.end();) {
    if (it->second.session == id) {
      fds_in_flight_ -= it->second.fds;
      it = in_flight_.erase(it);
    } else {
      ++it;
    }
  }
  by_secret_.erase(session.secret);
  sessions_.erase(id);
}

absl::StatusOr<SessionId> LeaseManager::Authenticate(
    const std::string& secret, const Identity& caller) const {
  MutexLock lock(&mu_);
  auto it = by_secret_.find(secret);
  if (secret.empty() || it == by_secret_.end()) {
    return hugepool::Refuse(
        RefusalReason::kNoFdChannel, "no session belongs to this call",
        "connect the fd channel first and send its secret as metadata "
        "'hugepool-session-bin' (the client library does)");
  }
  const Session& session = *sessions_.at(it->second);
  if (session.who.uid != caller.uid || session.who.domain != caller.domain) {
    return hugepool::Refuse(
        RefusalReason::kNotAllowed,
        absl::StrCat("the session belongs to uid ", session.who.uid,
                     ", the call comes from uid ", caller.uid),
        "use one process for the fd channel and the calls");
  }
  return session.id;
}

void LeaseManager::CancelAcquire(SessionId session_id,
                                 const std::string& request_id) {
  LeaseId id;
  {
    MutexLock lock(&mu_);
    Session* session = FindSession(session_id);
    if (session == nullptr) return;
    auto it = session->by_request.find(request_id);
    if (it == session->by_request.end()) return;
    Entry* entry = FindEntry(it->second);
    if (entry == nullptr || !(entry->waiting || entry->starting)) return;
    id = it->second;
    entry->doomed = true;
  }
  if (LeaveQueue(id)) {
    Fail(id, absl::CancelledError("the caller cancelled the request"));
    ServeWaiters();  // those behind it may pass now
  }
}

void LeaseManager::CancelAllWaits() {
  std::vector<LeaseId> waiting;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, entry] : leases_) {
      if (entry->waiting) waiting.push_back(id);
    }
  }
  for (LeaseId id : waiting) {
    if (LeaveQueue(id)) {
      Fail(id, hugepool::Refuse(RefusalReason::kDraining,
                                "the daemon is stopping",
                                "try again when it has been restarted"));
    }
  }
}

// --- Attaching ---------------------------------------------------------------

void LeaseManager::Attach(SessionId session, const std::string& request_id,
                          LeaseId id, const std::string& name,
                          GrantCallback done) {
  // On the executor, so that no two attachments use one lease's files at once.
  deps_.executor->Post([this, session, request_id, id, name,
                        done = std::move(done)] {
    done(AttachNow(session, request_id, id, name));
  });
}

absl::StatusOr<LeaseManager::Granted> LeaseManager::AttachNow(
    SessionId session_id, const std::string& request_id, LeaseId id,
    const std::string& name) {
  Lease copy;
  {
    MutexLock lock(&mu_);
    Session* session = FindSession(session_id);
    if (session == nullptr || !session->connected) {
      return hugepool::Refuse(RefusalReason::kNoFdChannel,
                              "the session has no fd channel");
    }
    const Entry* visible = FindVisible(session->who, id, name);
    if (visible == nullptr || visible->lease.phase == LeasePhase::kReturning) {
      return hugepool::Refuse(
          RefusalReason::kLeaseGone,
          absl::StrCat("there is no lease ",
                       name.empty() ? ToWire(id) : absl::StrCat("'", name, "'"),
                       " to attach to"),
          "see hpctl lease list");
    }
    Entry& entry = *FindEntry(visible->lease.id);
    Lease& lease = entry.lease;
    if (lease.lifetime != Lifetime::kNamed) {
      return absl::FailedPreconditionError(
          absl::StrCat(ToWire(lease.id), " is not a NAMED lease"));
    }
    if (lease.phase != LeasePhase::kHeld || entry.sending) {
      return absl::FailedPreconditionError(absl::StrCat(
          ToWire(lease.id), " was not yet acknowledged by its first holder"));
    }
    HP_RETURN_IF_ERROR(
        MayFly(*session, static_cast<uint32_t>(lease.extents.size())));
    ++lease.generation;
    // A descriptor that went to several holders is not for reuse in place.
    lease.in_place = false;
    for (const TakenExtent& e : lease.extents) {
      deps_.host->PoolOf(e).ExpectOpen(e.slot);
    }
    Fly(*session, lease);
    entry.sending = true;
    copy = lease;
  }
  absl::StatusOr<uint32_t> frames =
      granter_.Grant(copy, session_id, request_id);
  After after;
  {
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(copy.id);
    HP_CHECK(entry != nullptr, "a lease being sent is booked");
    entry->sending = false;
    if (frames.ok()) {
      ExpectAcknowledgement(copy);
    } else {
      Landed(copy.id, copy.generation);
    }
    if (entry->doomed) EndLease(*entry, LeaseNews::Kind::kReleased, &after);
  }
  Run(std::move(after));
  HP_RETURN_IF_ERROR(frames.status());
  return Granted{copy, *frames, absl::ZeroDuration()};
}

}  // namespace hugepool
