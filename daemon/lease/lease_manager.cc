// Acquiring: from a request to an acknowledged lease. lease_prepare.cc has what is
// done between taking and sending, lease_flight.cc what is on its way,
// lease_return.cc the way back, lease_revoke.cc that by order of an
// operator, sessions.cc the sessions, lease_views.cc what is
// shown.
#include "daemon/lease/lease_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/refusal.h"
#include "daemon/lease/after.h"

namespace hugepool {
namespace {

// An extent found opened by somebody between probe and grant is replaced by
// another this often before the client hears of it.
constexpr int kMaxAttempts = 4;

// Until memory that is looked at is back in stock, at most: at the slowest that
// memory is, more than any extent takes.
constexpr absl::Duration kMoment = absl::Seconds(1);

constexpr size_t kMaxName = 128;
// More than any host has; two of it still fit into 64 bits.
constexpr Bytes kLargest(uint64_t{1} << 62);
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxLabelBytes = 256;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
         c == '/' || c == ':';
}

}  // namespace

LeaseManager::LeaseManager(const Options& options, const Deps& deps)
    : options_(options), deps_(deps), granter_(deps.files, deps.sender, deps.watch) {}

absl::Status LeaseManager::CheckSpec(const AcquireSpec& spec) const {
  const auto bad = [](const std::string& what, const std::string& hint) {
    return hugepool::Refuse(RefusalReason::kBadRequest, what, hint);
  };
  if (spec.request_id.empty() || spec.request_id.size() > kMaxName) {
    return bad(absl::StrCat("a request_id of ", spec.request_id.size(),
                            " bytes"),
               "choose one of 1 to 128 bytes, unique in the session");
  }
  const bool named = spec.lifetime == Lifetime::kNamed;
  if (named == spec.name.empty()) {
    return bad(named ? "a NAMED lease without a name"
                     : "a name for a lease that is not NAMED",
               "give a name with lifetime NAMED, and only there");
  }
  if (spec.name.size() > kMaxName ||
      !std::all_of(spec.name.begin(), spec.name.end(), IsNameByte)) {
    return bad("a name that is too long or has other bytes than letters, "
               "digits and -_./:",
               "use at most 128 of these bytes");
  }
  if (spec.labels.size() > kMaxLabels) {
    return bad(absl::StrCat(spec.labels.size(), " labels"),
               absl::StrCat("use at most ", kMaxLabels));
  }
  for (const auto& [key, value] : spec.labels) {
    if (key.empty() || key.size() + value.size() > kMaxLabelBytes) {
      return bad("a label without a key, or of more than 256 bytes",
                 "shorten it");
    }
  }
  if (spec.max_wait < absl::ZeroDuration()) {
    return bad("a negative max_wait", "use 0 for not waiting");
  }
  if (spec.time_to_live <= absl::ZeroDuration()) {
    return bad("a time_to_live of 0 or less", "leave it out for no end");
  }
  return absl::OkStatus();
}

// Books a lease without memory yet; nullptr: `done` was for an existing one.
absl::StatusOr<LeaseManager::Entry*> LeaseManager::Book(SessionId session_id,
                                                        AcquireSpec& spec,
                                                        GrantCallback& done) {
  Session* session = FindSession(session_id);
  if (session == nullptr || !session->connected) {
    return hugepool::Refuse(RefusalReason::kNoFdChannel,
                            "the session has no fd channel",
                            "connect the fd channel first (the client library "
                            "does)");
  }
  const DomainId domain = session->who.domain;
  if (spec.lifetime == Lifetime::kNamed &&
      by_name_.contains({domain, spec.name})) {
    return hugepool::Refuse(
        RefusalReason::kNameTaken,
        absl::StrCat("the domain has a lease named '", spec.name, "' already"),
        "attach to it, release it, or choose another name");
  }
  Bytes wanted;
  for (const SegmentRequest& s : spec.segments) {
    // Before the sum can wrap round.
    if (s.size > kLargest || wanted > kLargest) {
      return hugepool::Refuse(
          Refusal{RefusalReason::kNeverFits, s.size, {}, "ask for less"},
          absl::StrCat("a segment of ", ToString(s.size),
                       " can never be served"));
    }
    wanted += s.size;
  }
  HP_RETURN_IF_ERROR(deps_.domains->MayCharge(domain, wanted));
  for (const SegmentRequest& s : spec.segments) {
    if (s.copy) HP_RETURN_IF_ERROR(FindSource(session->who, s).status());
  }
  auto entry = std::make_unique<Entry>();
  Lease& lease = entry->lease;
  lease.id = LeaseId((uint64_t{options_.boot_id} << 32) | next_lease_++);
  lease.lifetime = spec.lifetime;
  lease.name = spec.name;
  lease.request_id = spec.request_id;
  lease.owner = session->who;
  lease.session = session_id;
  lease.created = deps_.clock->WallNow();
  lease.labels = spec.labels;
  lease.sealed = spec.sealed;
  lease.reopenable = spec.reopenable;
  lease.is_private = spec.is_private;
  // The reuse rule (docs/design.md): only where operator and client both say
  // so, and where the holder could not have reopened or resealed the file.
  lease.in_place = deps_.domains->PolicyOf(domain).in_place &&
                   spec.is_private && !spec.sealed && !spec.reopenable &&
                   session->who.uid != 0 &&
                   session->who.uid != options_.daemon_uid;
  entry->starting = true;
  entry->started = deps_.clock->Now();
  entry->max_wait = spec.max_wait;
  entry->spec = std::move(spec);
  entry->done = std::move(done);
  const LeaseId id = lease.id;
  session->by_request[lease.request_id] = id;
  session->leases.insert(id);
  if (lease.lifetime == Lifetime::kNamed) by_name_[{domain, lease.name}] = id;
  deps_.domains->CountLease(domain, +1);
  Entry* raw = entry.get();
  leases_.emplace(id, std::move(entry));
  return raw;
}

void LeaseManager::Acquire(SessionId session_id, AcquireSpec spec,
                           GrantCallback done) {
  absl::Status status = CheckSpec(spec);
  std::optional<Granted> existing;
  LeaseId id;
  if (status.ok()) {
    MutexLock lock(&mu_);
    Session* session = FindSession(session_id);
    auto known = session == nullptr ? std::map<std::string, LeaseId>::iterator()
                                    : session->by_request.find(spec.request_id);
    if (session != nullptr && known != session->by_request.end()) {
      const Entry& entry = *leases_.at(known->second);
      if (entry.waiting || entry.starting || entry.sending) {
        status = absl::AbortedError(
            absl::StrCat("request '", spec.request_id, "' is under way"));
      } else {
        const auto fds = static_cast<uint32_t>(entry.lease.extents.size());
        existing = Granted{entry.lease,
                           (fds + Granter::kMaxFdsPerFrame - 1) /
                               Granter::kMaxFdsPerFrame,
                           absl::ZeroDuration()};
      }
    } else if (auto booked = Book(session_id, spec, done); booked.ok()) {
      id = (*booked)->lease.id;
    } else {
      status = booked.status();
    }
  }
  if (existing) return done(*std::move(existing));
  if (!status.ok()) return done(status);
  Start(id);
}

HostRequest LeaseManager::RequestFor(const Entry& entry) const {
  HostRequest request;
  request.segments = entry.spec.segments;
  request.terms.lease = entry.lease.id;
  request.terms.domain = entry.lease.owner.domain;
  request.terms.in_place = entry.lease.in_place;
  request.terms.memory_lifetime = entry.lease.lifetime == Lifetime::kMemory;
  request.terms.keep_descriptor = entry.lease.lifetime == Lifetime::kNamed;
  request.terms.fresh_only = entry.lease.sealed;
  // A second try comes after something went wrong: the ordinary way.
  request.terms.fills =
      !options_.verify_at_grant && entry.attempts == 0 &&
      std::all_of(request.segments.begin(), request.segments.end(),
                  [](const SegmentRequest& s) { return s.copy.has_value(); });
  return request;
}

// Asks the pools, once without waiting; then in their queue, if allowed.
void LeaseManager::Start(LeaseId id) {
  HostRequest request;
  bool may_wait = false;
  {
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(id);
    HP_CHECK(entry != nullptr, "a lease that starts is booked");
    request = RequestFor(*entry);
    may_wait = entry->spec.max_wait > absl::ZeroDuration();
  }
  absl::StatusOr<Taken> taken = deps_.host->Take(request);
  if (taken.ok()) return FinishTake(id, *std::move(taken));
  const auto refusal = RefusalOf(taken.status());
  const bool short_of = refusal.has_value() &&
                        (refusal->reason == RefusalReason::kPoolShort ||
                         refusal->reason == RefusalReason::kTooManyExtents);
  // What is only being looked at comes back in a moment, if that is all it lacks.
  const Bytes looked_at =
      short_of && !may_wait ? deps_.host->Verifying() : Bytes(0);
  const bool in_a_moment = looked_at > Bytes(0) &&
                           refusal->wanted <= refusal->available + looked_at;
  if (!short_of || !(may_wait || in_a_moment)) return Fail(id, taken.status());
  {
    // Before queueing: the answer can come from another thread at once.
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(id);
    if (entry != nullptr) {
      entry->waiting = true;
      if (in_a_moment) entry->max_wait = kMoment;
    }
  }
  auto waited = deps_.host->TakeOrWait(request);
  if (!waited.ok()) return Fail(id, waited.status());
  if (*waited != nullptr) return FinishTake(id, std::move(**waited));
  Wait(id);
}

// The request is in the pools' queue.
void LeaseManager::Wait(LeaseId id) {
  bool cancelled = false;
  After after;
  {
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(id);
    if (entry == nullptr) return;  // served and gone already
    entry->starting = false;
    if (!entry->waiting) return;  // served already
    cancelled = entry->doomed;
    deps_.executor->PostAt(entry->started + entry->max_wait,
                           [this, id] { ExpireWait(id); });
    WaitNews news;
    news.kind = WaitNews::Kind::kQueued;
    news.request_id = entry->lease.request_id;
    news.domain = entry->lease.owner.domain;
    after.news.push_back(news);
  }
  for (const auto& pool : deps_.host->pools()) after.wake.insert(pool.get());
  Run(std::move(after));
  if (cancelled && LeaveQueue(id)) {
    Fail(id, absl::CancelledError("the session ended while it waited"));
    ServeWaiters();  // those behind it may pass now
  }
}

bool LeaseManager::LeaveQueue(LeaseId id) {
  if (!deps_.host->CancelWait(id)) return false;
  // What was made for it goes back.
  for (const auto& pool : deps_.host->pools()) deps_.wake(*pool);
  return true;
}

void LeaseManager::ExpireWait(LeaseId id) {
  if (!LeaveQueue(id)) return;
  absl::Duration waited;
  Bytes wanted;
  HostRequest request;
  bool in_a_moment = false;
  {
    MutexLock lock(&mu_);
    const Entry* entry = FindEntry(id);
    if (entry == nullptr) return;
    in_a_moment = entry->spec.max_wait == absl::ZeroDuration();
    if (in_a_moment) request = RequestFor(*entry);
    waited = entry->max_wait;
    for (const auto& s : entry->spec.segments) wanted += s.size;
  }
  if (in_a_moment) {
    // It did not ask to wait: what it is told is what the pools say now.
    auto taken = deps_.host->Take(request);
    if (taken.ok()) return FinishTake(id, *std::move(taken));
    Fail(id, taken.status());
    return ServeWaiters();
  }
  Fail(id, hugepool::Refuse(
               Refusal{RefusalReason::kWaitExpired, wanted, Bytes(0),
                       "wait longer, ask for less, or see what holds the "
                       "memory (hpctl lease list)"},
               absl::StrCat("no memory for it came within ",
                            absl::FormatDuration(waited))));
  // Those behind it may pass now.
  ServeWaiters();
}

// Ends a request that got no memory.
void LeaseManager::Fail(LeaseId id, const absl::Status& why) {
  GrantCallback done;
  After after;
  {
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(id);
    if (entry == nullptr) return;
    if (entry->waiting) {
      WaitNews news;
      news.kind = why.code() == absl::StatusCode::kDeadlineExceeded
                      ? WaitNews::Kind::kExpired
                      : WaitNews::Kind::kCancelled;
      news.request_id = entry->lease.request_id;
      news.domain = entry->lease.owner.domain;
      news.waited = deps_.clock->Now() - entry->started;
      after.news.push_back(news);
    }
    done = std::move(entry->done);
    EraseLease(id, &after);
  }
  Run(std::move(after));
  if (done) done(why);
}

// Books the memory under the lease. An error: it was sent back to the pools.
absl::Status LeaseManager::BookTaken(LeaseId id, Taken& taken, Lease* copy,
                                     std::vector<Task>* tasks, After* after) {
  Entry* entry = FindEntry(id);
  HP_CHECK(entry != nullptr, "a lease that is served is booked");
  Lease& lease = entry->lease;
  lease.extents = std::move(taken.extents);
  lease.segments = std::move(taken.segments);
  absl::Status status;
  Session* session = FindSession(lease.session);
  if (entry->doomed || session == nullptr || !session->connected) {
    status = absl::UnavailableError("the session ended while it waited");
  } else {
    status = MayFly(*session, static_cast<uint32_t>(lease.extents.size()));
  }
  const Bytes size = lease.size();
  if (status.ok()) status = PlanTasks(*entry, tasks);
  if (status.ok()) {
    status = deps_.domains->Charge(lease.owner.domain, size);
  }
  entry->starting = false;
  if (entry->waiting) {
    entry->waiting = false;
    WaitNews news;
    news.kind = WaitNews::Kind::kServed;
    news.request_id = lease.request_id;
    news.domain = lease.owner.domain;
    news.wanted = size;
    news.waited = deps_.clock->Now() - entry->started;
    after->news.push_back(news);
  }
  if (!status.ok()) {
    StopReading(*entry, after);
    return status;
  }
  Fly(*session, lease);
  entry->sending = true;
  entry->preparing = tasks->size();
  *copy = lease;
  return absl::OkStatus();
}

void LeaseManager::FinishTake(LeaseId id, Taken taken) {
  Lease lease;
  std::vector<Task> tasks;
  GrantCallback failed;
  absl::Status status;
  After after;
  {
    MutexLock lock(&mu_);
    status = BookTaken(id, taken, &lease, &tasks, &after);
    if (!status.ok()) {
      // Never opened, never charged: it goes back to stock.
      Entry* entry = FindEntry(id);
      for (const TakenExtent& e : entry->lease.extents) {
        Pool& pool = deps_.host->PoolOf(e);
        pool.Untake(e.slot);
        after.wake.insert(&pool);
      }
      entry->lease.extents.clear();
      failed = std::move(entry->done);
      EraseLease(id, &after);
    }
  }
  Run(std::move(after));
  if (!status.ok()) {
    if (failed) failed(status);
    // Others may wait for just this. Not from here, which may be called while
    // they are being served.
    deps_.executor->Post([this] { ServeWaiters(); });
    return;
  }
  if (!tasks.empty()) return StartTasks(std::move(tasks));
  FinishSend(id, granter_.Grant(lease, lease.session, lease.request_id));
}

// The Granter is done with the files of a new lease.
void LeaseManager::FinishSend(LeaseId id, absl::StatusOr<uint32_t> frames) {
  GrantCallback done;
  std::optional<Granted> granted;
  absl::Status status = frames.status();
  bool again = false;
  After after;
  {
    MutexLock lock(&mu_);
    Entry* entry = FindEntry(id);
    HP_CHECK(entry != nullptr && entry->sending, "a lease being sent is booked");
    entry->sending = false;
    Lease& lease = entry->lease;
    if (status.ok() && entry->doomed) {
      status = absl::UnavailableError("the session ended during the grant");
    }
    done = std::move(entry->done);
    if (status.ok()) {
      if (lease.lifetime == Lifetime::kNamed) {
        lease.expires = lease.created + entry->spec.time_to_live;
      }
      granted = Granted{lease, *frames, deps_.clock->Now() - entry->started};
      ExpectAcknowledgement(lease);
      // Before the acknowledgement: a release by the other way may overtake it.
      parts_.Publish(std::make_shared<LeaseParts>(lease, *deps_.host,
                                                  deps_.deferred));
      Publish(LeaseNews::Kind::kGranted, lease, &after);
    } else {
      again = absl::IsAborted(status) && !entry->doomed &&
              entry->attempts + 1 < kMaxAttempts;
      const SessionId session = lease.session;
      AcquireSpec spec = entry->spec;
      const int attempts = entry->attempts;
      EndLease(*entry, LeaseNews::Kind::kRolledBack, &after);
      if (again) {
        auto booked = Book(session, spec, done);
        if (booked.ok()) {
          (*booked)->attempts = attempts + 1;
          id = (*booked)->lease.id;
        } else {
          again = false;
          status = booked.status();
        }
      }
    }
  }
  Run(std::move(after));
  if (again) return Start(id);
  if (!done) return;
  if (granted) {
    done(*std::move(granted));
  } else {
    done(status);
  }
}

}  // namespace hugepool
