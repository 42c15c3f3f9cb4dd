#include "client/testing/fake_daemon.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/testing/fake_admin.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace hugepool::testing {
namespace {

grpc::Status NoSuchLease() {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_LEASE_GONE);
  detail.set_hint("see hpctl lease list");
  return MakeStatus(absl::StatusCode::kNotFound, "no such lease", detail);
}

}  // namespace

FakeDaemon::FakeDaemon(FakeDaemonOptions options)
    : options_(std::move(options)) {
  fds_ = std::make_unique<FakeFdServer>(
      options_.dir + "/fd.sock",
      [this](const std::string& lease_id) { OnNack(lease_id); },
      [this] {
        MutexLock lock(&mu_);
        std::vector<std::string> ids;
        for (const auto& [id, lease] : leases_) ids.push_back(id);
        return ids;
      });
  if (options_.calls) {
    fds_->set_on_call([this](const std::string& secret, const v1::Call& call) {
      return OnCall(secret, call);
    });
  }
  MutexLock lock(&mu_);
  status_.set_version("fake");
  status_.set_backend("shmem");
  status_.set_ready(true);
}

FakeDaemon::~FakeDaemon() { Stop(); }

void FakeDaemon::Start() {
  fds_->Start();
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + options_.dir + "/grpc.sock",
                           grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  if (options_.admin) {
    admin_ = MakeFakeAdmin();
    builder.AddListeningPort("unix:" + options_.dir + "/admin.sock",
                             grpc::InsecureServerCredentials());
    builder.RegisterService(admin_.get());
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
}

void FakeDaemon::Stop() {
  if (server_ == nullptr) return;
  fds_->Stop();
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

void FakeDaemon::Restart(bool remember) {
  Stop();
  if (!remember) {
    fds_->ForgetSessions();
    MutexLock lock(&mu_);
    leases_.clear();
    leased_ = Bytes();
  }
  Start();
}

void FakeDaemon::SetFaults(Faults faults) {
  MutexLock lock(&mu_);
  faults_ = std::move(faults);
}

void FakeDaemon::Stock(int n) {
  MutexLock lock(&mu_);
  const Bytes size =
      options_.page_size.Of(PageCount(options_.pages_per_extent));
  std::vector<UniqueFd> made;
  for (int i = 0; i < n; ++i) made.push_back(MakeExtent(size));
  stock_ = std::move(made);
}

size_t FakeDaemon::lease_count() const {
  MutexLock lock(&mu_);
  return leases_.size();
}

Bytes FakeDaemon::leased() const {
  MutexLock lock(&mu_);
  return leased_;
}

bool FakeDaemon::IsReleased(const std::string& lease_id, uint32_t segment,
                            Bytes offset) const {
  MutexLock lock(&mu_);
  const auto it = leases_.find(lease_id);
  return it != leases_.end() &&
         it->second.released.Has(segment, offset.value());
}

v1::AcquireRequest FakeDaemon::last_request() const {
  MutexLock lock(&mu_);
  return last_request_;
}

void FakeDaemon::AddListedLeases(int n) {
  MutexLock lock(&mu_);
  for (int i = 0; i < n; ++i) {
    v1::Lease lease;
    lease.set_lease_id(absl::StrCat("listed-", i));
    lease.set_state(v1::LEASE_STATE_HELD);
    lease.set_domain("test");
    lease.add_segments()->set_granted_bytes(MiB(2).value());
    listed_.push_back(std::move(lease));
  }
}

void FakeDaemon::SendRevokeNotice(const std::string& lease_id) {
  v1::ServerFrame frame;
  frame.mutable_revoke_notice()->set_lease_id(lease_id);
  fds_->Broadcast(frame);
}

void FakeDaemon::SetStatus(v1::GetStatusResponse status) {
  MutexLock lock(&mu_);
  status_ = std::move(status);
}

grpc::Status FakeDaemon::CheckSession(const std::string& secret) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_NO_FD_CHANNEL);
  const auto refused = MakeStatus(absl::StatusCode::kFailedPrecondition,
                                  "connect the fd channel first", detail);
  {
    MutexLock lock(&mu_);
    if (faults_.unknown_session > 0) {
      --faults_.unknown_session;
      return refused;
    }
  }
  return fds_->KnowsSession(secret) ? grpc::Status::OK : refused;
}

grpc::Status FakeDaemon::FindSession(grpc::ServerContext* context,
                                     std::string* secret) {
  const auto& metadata = context->client_metadata();
  const auto it = metadata.find("hugepool-session-bin");
  if (it != metadata.end()) {
    secret->assign(it->second.data(), it->second.size());
  }
  return CheckSession(*secret);
}

std::optional<v1::Answer> FakeDaemon::OnCall(const std::string& secret,
                                             const v1::Call& call) {
  {
    MutexLock lock(&mu_);
    if (faults_.silent) return std::nullopt;
  }
  v1::Answer answer;
  grpc::Status status = CheckSession(secret);
  if (status.ok() && call.has_acquire()) {
    status = DoAcquire(secret, call.acquire(), answer.mutable_acquire());
  } else if (status.ok() && call.has_attach()) {
    status = DoAttach(secret, call.attach(), answer.mutable_attach());
  } else if (status.ok()) {
    status = DoRelease(call.release(), answer.mutable_release());
  }
  if (status.ok() && !call.release().ranges().empty() && SaysGoodbye()) {
    return std::nullopt;
  }
  if (status.ok()) return answer;
  answer.Clear();
  answer.set_code(status.error_code());
  answer.set_text(status.error_message());
  if (!status.error_details().empty()) {
    answer.mutable_error()->ParseFromString(status.error_details());
  }
  return answer;
}

bool FakeDaemon::SaysGoodbye() {
  {
    MutexLock lock(&mu_);
    if (!faults_.goodbye_to_parts) return false;
  }
  v1::ServerFrame frame;
  frame.mutable_goodbye()->set_text("you may not be here");
  frame.mutable_goodbye()->mutable_error()->set_reason(
      v1::ERROR_REASON_NOT_ALLOWED);
  fds_->Broadcast(frame);
  return true;
}

UniqueFd FakeDaemon::MakeExtent(Bytes size) {
  if (!stock_.empty()) {
    UniqueFd fd = std::move(stock_.back());
    stock_.pop_back();
    return fd;
  }
  UniqueFd fd(memfd_create("fake-extent", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() ||
      ftruncate(fd.get(), static_cast<off_t>(size.value())) != 0) {
    std::abort();
  }
  return fd;
}

void FakeDaemon::AddSegment(Bytes size, uint32_t max_extents, uint32_t index,
                            FakeLease* lease) {
  uint64_t per_extent = options_.pages_per_extent;
  const uint64_t pages = options_.page_size.Floor(size).value();
  if (max_extents != 0) {
    per_extent = std::max(per_extent, (pages + max_extents - 1) / max_extents);
  }
  for (uint64_t at = 0; at < pages; at += per_extent) {
    const Bytes bytes =
        options_.page_size.Of(PageCount(std::min(per_extent, pages - at)));
    lease->fds.push_back(MakeExtent(bytes));
    struct stat st = {};
    fstat(lease->fds.back().get(), &st);
    v1::Extent* const extent = lease->lease.add_extents();
    extent->set_extent_id(absl::StrCat("e", next_id_++));
    extent->set_segment(index);
    extent->set_offset(options_.page_size.Of(PageCount(at)).value());
    extent->set_size_bytes(bytes.value());
    extent->set_page_size(options_.page_size.bytes().value());
    extent->set_inode(faults_.wrong_inode ? st.st_ino + 1 : st.st_ino);
  }
}

grpc::Status FakeDaemon::Make(const v1::AcquireRequest& request,
                              std::string* id) {
  FakeLease lease;
  Bytes total;
  for (const v1::Segment& segment : request.segments()) {
    const auto pages = options_.page_size.Ceil(Bytes(segment.size_bytes()));
    v1::ErrorDetail detail;
    detail.set_reason(v1::ERROR_REASON_NEVER_FITS);
    detail.set_wanted_bytes(segment.size_bytes());
    detail.set_available_bytes(options_.capacity.value());
    if (!pages.has_value() ||
        options_.page_size.Of(*pages) > options_.capacity) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "more than there will ever be", detail);
    }
    const Bytes size = options_.page_size.Of(*pages);
    if (leased_ + total + size > options_.capacity) {
      detail.set_reason(v1::ERROR_REASON_POOL_SHORT);
      detail.set_retryable(true);
      detail.set_available_bytes((options_.capacity - leased_).value());
      detail.set_hint("wait, or ask for less");
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "too little clean memory", detail);
    }
    total += size;
    v1::GrantedSegment* const granted = lease.lease.add_segments();
    granted->set_granted_bytes(size.value());
    granted->set_page_size(options_.page_size.bytes().value());
    AddSegment(size, segment.max_extents(), lease.lease.segments_size() - 1,
               &lease);
  }
  *id = absl::StrCat("lease-", next_id_++);
  lease.request_id = request.request_id();
  lease.lease.set_lease_id(*id);
  lease.lease.set_generation(1);
  lease.lease.set_state(v1::LEASE_STATE_HELD);
  lease.lease.set_lifetime(request.lifetime());
  lease.lease.set_name(request.name());
  lease.lease.set_domain("test");
  leased_ += total;
  leases_[*id] = std::move(lease);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::Send(const std::string& secret,
                              const std::string& request_id,
                              const std::string& lease_id, v1::Lease* out,
                              uint32_t* frames) {
  std::vector<int> numbers;
  v1::Grant grant;
  bool drop = false;
  {
    MutexLock lock(&mu_);
    const FakeLease& lease = leases_[lease_id];
    *out = lease.lease;
    for (const UniqueFd& fd : lease.fds) numbers.push_back(fd.get());
    grant.set_request_id(request_id);
    grant.set_lease_id(lease_id);
    grant.set_generation(lease.lease.generation());
    if (faults_.drop_frames > 0) {
      --faults_.drop_frames;
      drop = true;
    }
  }
  *frames = drop ? 1 : fds_->SendGrant(secret, grant, numbers);
  if (*frames != 0) return grpc::Status::OK;
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the session is gone");
}

grpc::Status FakeDaemon::Acquire(grpc::ServerContext* context,
                                 const v1::AcquireRequest* request,
                                 v1::AcquireResponse* response) {
  std::string secret;
  if (grpc::Status s = FindSession(context, &secret); !s.ok()) return s;
  return DoAcquire(secret, *request, response);
}

grpc::Status FakeDaemon::DoAcquire(const std::string& secret,
                                   const v1::AcquireRequest& request,
                                   v1::AcquireResponse* response) {
  std::string id;
  {
    MutexLock lock(&mu_);
    last_request_ = request;
    if (faults_.deny_code != absl::StatusCode::kOk) {
      return MakeStatus(faults_.deny_code, faults_.deny_text,
                        faults_.deny_detail);
    }
    for (const auto& [lease_id, lease] : leases_) {
      if (lease.request_id == request.request_id()) id = lease_id;
    }
    if (id.empty()) {
      if (grpc::Status s = Make(request, &id); !s.ok()) return s;
    }
  }
  uint32_t frames = 0;
  if (grpc::Status s = Send(secret, request.request_id(), id,
                            response->mutable_lease(), &frames);
      !s.ok()) {
    return s;
  }
  response->set_frames(frames);
  MutexLock lock(&mu_);
  if (faults_.lose_reply > 0) {
    --faults_.lose_reply;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the reply was lost");
  }
  return grpc::Status::OK;
}

std::map<std::string, FakeDaemon::FakeLease>::iterator FakeDaemon::Find(
    const std::string& id, const std::string& name) {
  if (!id.empty()) return leases_.find(id);
  return std::find_if(leases_.begin(), leases_.end(), [&](const auto& entry) {
    return !name.empty() && entry.second.lease.name() == name;
  });
}

grpc::Status FakeDaemon::Attach(grpc::ServerContext* context,
                                const v1::AttachRequest* request,
                                v1::AttachResponse* response) {
  std::string secret;
  if (grpc::Status s = FindSession(context, &secret); !s.ok()) return s;
  return DoAttach(secret, *request, response);
}

grpc::Status FakeDaemon::DoAttach(const std::string& secret,
                                  const v1::AttachRequest& request,
                                  v1::AttachResponse* response) {
  std::string id;
  {
    MutexLock lock(&mu_);
    const auto it = Find(request.lease_id(), request.name());
    if (it == leases_.end()) return NoSuchLease();
    id = it->first;
  }
  uint32_t frames = 0;
  grpc::Status status = Send(secret, request.request_id(), id,
                             response->mutable_lease(), &frames);
  response->set_frames(frames);
  return status;
}

grpc::Status FakeDaemon::Release(grpc::ServerContext* /*context*/,
                                 const v1::ReleaseRequest* request,
                                 v1::ReleaseResponse* response) {
  return DoRelease(*request, response);
}

grpc::Status FakeDaemon::DoRelease(const v1::ReleaseRequest& request,
                                   v1::ReleaseResponse* response) {
  MutexLock lock(&mu_);
  const auto it = Find(request.lease_id(), request.name());
  if (it == leases_.end()) return NoSuchLease();
  if (!request.ranges().empty()) {
    return DoReleaseParts(&it->second, request, response);
  }
  Bytes size;
  for (const auto& segment : it->second.lease.segments()) {
    size += Bytes(segment.granted_bytes());
  }
  leased_ -= size;
  response->set_released_bytes(size.value());
  leases_.erase(it);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::DoReleaseParts(FakeLease* lease,
                                        const v1::ReleaseRequest& request,
                                        v1::ReleaseResponse* response) {
  if (faults_.deny_parts != absl::StatusCode::kOk) {
    return grpc::Status(static_cast<grpc::StatusCode>(faults_.deny_parts),
                        "no parts today");
  }
  grpc::Status status =
      lease->released.Release(lease->lease, lease->fds, request, response);
  if (status.ok() && faults_.lose_parts_reply > 0) {
    --faults_.lose_parts_reply;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the reply was lost");
  }
  return status;
}

grpc::Status FakeDaemon::GetLease(grpc::ServerContext* /*context*/,
                                  const v1::GetLeaseRequest* request,
                                  v1::GetLeaseResponse* response) {
  MutexLock lock(&mu_);
  const auto it = Find(request->lease_id(), request->name());
  if (it == leases_.end()) return NoSuchLease();
  *response->mutable_lease() = it->second.lease;
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ListLeases(grpc::ServerContext* /*context*/,
                                    const v1::ListLeasesRequest* request,
                                    v1::ListLeasesResponse* response) {
  MutexLock lock(&mu_);
  std::vector<const v1::Lease*> all;
  for (const auto& [id, lease] : leases_) all.push_back(&lease.lease);
  for (const v1::Lease& lease : listed_) all.push_back(&lease);
  size_t at = 0;
  if (!request->page_token().empty() &&
      !absl::SimpleAtoi(request->page_token(), &at)) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "page_token");
  }
  size_t n = request->page_size() == 0 ? 500 : request->page_size();
  n = std::min<size_t>(n, 1000);
  for (; at < all.size() && n > 0; ++at, --n) {
    *response->add_leases() = *all[at];
  }
  if (at < all.size()) response->set_next_page_token(absl::StrCat(at));
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::GetStatus(grpc::ServerContext* /*context*/,
                                   const v1::GetStatusRequest* /*request*/,
                                   v1::GetStatusResponse* response) {
  MutexLock lock(&mu_);
  *response = status_;
  response->set_leases(static_cast<uint32_t>(leases_.size()));
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::Watch(grpc::ServerContext* /*context*/,
                               const v1::WatchRequest* /*request*/,
                               grpc::ServerWriter<v1::Event>* writer) {
  v1::Event event;
  event.set_sequence(1);
  event.mutable_lease()->set_kind(v1::LeaseEvent::KIND_GRANTED);
  event.mutable_lease()->set_lease_id("lease-1");
  writer->Write(event);
  event.Clear();
  event.set_sequence(2);
  event.mutable_warning()->set_text("a warning");
  writer->Write(event);
  return grpc::Status::OK;
}

void FakeDaemon::OnNack(const std::string& lease_id) {
  MutexLock lock(&mu_);
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) return;
  for (const auto& segment : it->second.lease.segments()) {
    leased_ -= Bytes(segment.granted_bytes());
  }
  leases_.erase(it);
}

}  // namespace hugepool::testing
