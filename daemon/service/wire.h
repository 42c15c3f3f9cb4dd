// Between the messages of the wire and the daemon's plain types. Pure functions.
#ifndef HUGEPOOL_DAEMON_SERVICE_WIRE_H_
#define HUGEPOOL_DAEMON_SERVICE_WIRE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/lease/domains.h"
#include "daemon/lease/events.h"
#include "daemon/lease/lease_manager.h"
#include "daemon/lease/types.h"
#include "daemon/pool/pool.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "grpcpp/support/status.h"
#include "hugepool/v1/hugepool.pb.h"

namespace hugepool::service {

// --- Requests (wire_request.cc) ------------------------------------------------
// BAD_REQUEST, UNKNOWN_PAGE_SIZE, NEVER_FITS or UNIMPLEMENTED for what can be
// seen to be wrong without knowing the pools.
// `offered`: the page sizes that have a pool, for the refusal of others.
absl::StatusOr<AcquireSpec> SpecFromWire(
    const v1::AcquireRequest& request, const std::vector<PageSize>& offered);
// nullopt for UNSPECIFIED; BAD_REQUEST for a state that there is not.
absl::StatusOr<std::optional<LeasePhase>> PhaseFromWire(v1::LeaseState state);

// --- Refusals (wire_status.cc) ---------------------------------------------------
// What a client gets to act on. A status without a refusal has a detail too,
// with as much as its code tells.
v1::ErrorDetail DetailOf(const absl::Status& status);
// The detail that goes with the answer of a call. Besides OK only UNAVAILABLE
// without a refusal has none: clients take that for a broken connection, and try
// again.
std::optional<v1::ErrorDetail> AnswerDetailOf(const absl::Status& status);
// With the serialized AnswerDetailOf().
grpc::Status ToGrpc(const absl::Status& status);

// --- Answers (wire_views.cc) -----------------------------------------------------
v1::Lease ToWire(const Lease& lease, const Domains& domains);
v1::PoolStatus ToWire(const PoolSnapshot& pool);
v1::DomainStatus ToWire(const DomainView& domain, Bytes returning);
v1::WaitStatus ToWire(const LeaseManager::WaitView& wait,
                      const Domains& domains);
// Without sequence and time.
v1::Event ToWire(const News& news, const Domains& domains);
google::protobuf::Duration ToWire(absl::Duration d);
google::protobuf::Timestamp ToWire(absl::Time t);

}  // namespace hugepool::service

#endif  // HUGEPOOL_DAEMON_SERVICE_WIRE_H_
