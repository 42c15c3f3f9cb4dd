// The C interface over client/internal. What it promises stands in hugepool.h.
#include "client/hugepool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/internal/connection.h"
#include "client/internal/errors.h"
#include "client/internal/release_ranges.h"
#include "client/internal/released_parts.h"
#include "client/internal/request.h"
#include "daemon/base/errno_status.h"

using hugepool::client::Connection;
using hugepool::client::HeldLease;
using hugepool::client::LeaseStanding;

struct hp_client {
  std::shared_ptr<Connection> connection;
};

struct hp_lease {
  std::shared_ptr<Connection> connection;
  HeldLease held;
};

namespace {

// Sizes that a structure had in some version of this interface. One line for
// each, oldest first; only the last may be sizeof.
constexpr size_t kErrorV1 = sizeof(hp_error);
constexpr size_t kConnectOptionsV1 = sizeof(hp_connect_options);
constexpr size_t kSegmentInfoV1 = sizeof(hp_segment_info);
constexpr size_t kExtentInfoV1 = sizeof(hp_extent_info);
constexpr size_t kRangeV1 = sizeof(hp_range);
static_assert(HP_MAX_RANGES == hugepool::client::kMaxRanges);

void CopyText(std::string_view text, char* out, size_t capacity) {
  const size_t n = std::min(text.size(), capacity - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

// Describes `status` in `error` and returns its code.
int Fail(const absl::Status& status, hp_error* error) {
  const int code = static_cast<int>(status.code());
  if (error == nullptr || error->size < kErrorV1) return code;
  error->code = code;
  error->reason = HP_REASON_NONE;
  error->retryable = hugepool::client::IsTransportFailure(status) ? 1 : 0;
  error->system_errno = hugepool::ErrnoOf(status);
  error->wanted_bytes = 0;
  error->available_bytes = 0;
  error->hint[0] = '\0';
  CopyText(std::string(status.message()), error->message,
           sizeof error->message);
  if (const auto detail = hugepool::client::ErrorDetailOf(status)) {
    error->reason = detail->reason();
    error->retryable = detail->retryable() ? 1 : 0;
    error->wanted_bytes = detail->wanted_bytes();
    error->available_bytes = detail->available_bytes();
    CopyText(detail->hint(), error->hint, sizeof error->hint);
  }
  return code;
}

int BadArgument(const char* what, hp_error* error) {
  return Fail(absl::InvalidArgumentError(what), error);
}

int Deliver(const std::shared_ptr<Connection>& connection,
            absl::StatusOr<HeldLease> held, hp_lease** lease, hp_error* error) {
  if (!held.ok()) return Fail(held.status(), error);
  *lease = new hp_lease{connection, *std::move(held)};
  return HP_OK;
}

}  // namespace

extern "C" {

unsigned hp_api_version(void) {
  return HP_API_VERSION_MAJOR * 1000 + HP_API_VERSION_MINOR;
}

const char* hp_strerror(int code) {
  static constexpr const char* kNames[] = {
      "ok",
      "cancelled",
      "unknown",
      "invalid argument",
      "deadline exceeded",
      "not found",
      "already exists",
      "permission denied",
      "resource exhausted",
      "failed precondition",
      "aborted",
      "out of range",
      "unimplemented",
      "internal",
      "unavailable",
      "data loss",
      "unauthenticated",
  };
  return code >= 0 && static_cast<size_t>(code) < std::size(kNames)
             ? kNames[code]
             : "unknown code";
}

const char* hp_strreason(int reason) {
  static constexpr const char* kNames[] = {
      "none",
      "pool short",
      "quota",
      "too many extents",
      "never fits",
      "no fd channel",
      "unknown page size",
      "no such node",
      "wait expired",
      "not allowed",
      "draining",
      "lease gone",
      "bad request",
      "bad frame",
      "wrong version",
      "name taken",
      "internal",
  };
  return reason >= 0 && static_cast<size_t>(reason) < std::size(kNames)
             ? kNames[reason]
             : "unknown reason";
}

int hp_connect(const char* dir, hp_client** client, hp_error* error) {
  return hp_connect_with(dir, nullptr, client, error);
}

int hp_connect_with(const char* dir, const hp_connect_options* options,
                    hp_client** client, hp_error* error) {
  if (client == nullptr) return BadArgument("client is NULL", error);
  *client = nullptr;
  const hp_connect_options defaults = HP_CONNECT_OPTIONS_INIT;
  if (options == nullptr) options = &defaults;
  if (options->size < kConnectOptionsV1) {
    return BadArgument("hp_connect_options has no valid size", error);
  }
  if ((options->flags & ~(HP_CONNECT_NO_WATCH | HP_CONNECT_OVER_GRPC)) != 0) {
    return BadArgument("hp_connect_options has an unknown flag", error);
  }
  if (dir == nullptr) dir = std::getenv("HUGEPOOL_SOCKET_DIR");
  hugepool::client::ConnectOptions connect;
  connect.dir = dir != nullptr && *dir != '\0' ? dir : "/run/hugepool";
  if (options->client_name != nullptr) {
    connect.client_name = options->client_name;
  }
  connect.reconnect_budget =
      hugepool::client::FromMilliseconds(options->reconnect_ms);
  connect.call_timeout =
      hugepool::client::FromMilliseconds(options->call_timeout_ms);
  connect.watch = (options->flags & HP_CONNECT_NO_WATCH) == 0;
  connect.over_grpc = (options->flags & HP_CONNECT_OVER_GRPC) != 0;
  auto connection = Connection::Connect(std::move(connect));
  if (!connection.ok()) return Fail(connection.status(), error);
  *client = new hp_client{*std::move(connection)};
  return HP_OK;
}

void hp_close(hp_client* client) { delete client; }

int hp_acquire(hp_client* client, const hp_request* request, hp_lease** lease,
               hp_error* error) {
  if (lease == nullptr) return BadArgument("lease is NULL", error);
  *lease = nullptr;
  if (client == nullptr) return BadArgument("client is NULL", error);
  if (request == nullptr) return BadArgument("request is NULL", error);
  return Deliver(client->connection,
                 client->connection->Acquire(
                     hugepool::client::BuildRequest(*request),
                     hugepool::client::MapOptionsOf(request->flags)),
                 lease, error);
}

int hp_attach(hp_client* client, const char* name, uint32_t flags,
              hp_lease** lease, hp_error* error) {
  if (lease == nullptr) return BadArgument("lease is NULL", error);
  *lease = nullptr;
  if (client == nullptr) return BadArgument("client is NULL", error);
  if (name == nullptr) return BadArgument("name is NULL", error);
  if ((flags & ~(HP_REQUEST_NO_MAP | HP_REQUEST_DONTFORK)) != 0) {
    return BadArgument("hp_attach does not know a flag", error);
  }
  hugepool::v1::AttachRequest request;
  request.set_name(name);
  return Deliver(client->connection,
                 client->connection->Attach(
                     std::move(request), hugepool::client::MapOptionsOf(flags)),
                 lease, error);
}

int hp_release(hp_lease* lease, hp_error* error) {
  if (lease == nullptr) return HP_OK;
  const std::shared_ptr<Connection> connection = std::move(lease->connection);
  const std::string id = std::move(*lease->held.lease.mutable_lease_id());
  // First the memory: the daemon looks whether anybody still has it.
  delete lease;
  const auto released = connection->Release(id);
  return released.ok() ? HP_OK : Fail(released.status(), error);
}

int hp_release_ranges(hp_lease* lease, const hp_range* ranges, size_t count,
                      hp_error* error) {
  if (lease == nullptr) return BadArgument("lease is NULL", error);
  if (ranges == nullptr && count != 0) {
    return BadArgument("ranges is NULL", error);
  }
  std::vector<hugepool::client::LeaseRange> parts;
  for (size_t i = 0; i < count; ++i) {
    // Of a program built against a later version they can be longer.
    const auto& range = *reinterpret_cast<const hp_range*>(
        reinterpret_cast<const char*>(ranges) + i * ranges->size);
    if (range.size < kRangeV1 || range.size != ranges->size) {
      return BadArgument("hp_range has no valid size", error);
    }
    parts.push_back({range.segment, hugepool::Bytes(range.offset),
                     hugepool::Bytes(range.bytes)});
  }
  const absl::Status status = hugepool::client::ReleaseRanges(
      lease->connection.get(), &lease->held, parts);
  return status.ok() ? HP_OK : Fail(status, error);
}

void hp_lease_forget(hp_lease* lease) {
  if (lease == nullptr) return;
  lease->connection->Forget(lease->held.lease.lease_id());
  delete lease;
}

int hp_release_name(hp_client* client, const char* name, hp_error* error) {
  if (client == nullptr) return BadArgument("client is NULL", error);
  if (name == nullptr) return BadArgument("name is NULL", error);
  const auto released = client->connection->ReleaseByName(name);
  return released.ok() ? HP_OK : Fail(released.status(), error);
}

const char* hp_lease_id(const hp_lease* lease) {
  return lease->held.lease.lease_id().c_str();
}

uint64_t hp_lease_waited_ms(const hp_lease* lease) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, absl::ToInt64Milliseconds(lease->held.waited)));
}

size_t hp_lease_segment_count(const hp_lease* lease) {
  return static_cast<size_t>(lease->held.lease.segments_size());
}

int hp_lease_segment(const hp_lease* lease, size_t index,
                     hp_segment_info* info) {
  if (info == nullptr || info->size < kSegmentInfoV1) {
    return HP_INVALID_ARGUMENT;
  }
  if (index >= hp_lease_segment_count(lease)) return HP_OUT_OF_RANGE;
  const auto& segment = lease->held.lease.segments(static_cast<int>(index));
  info->address = index < lease->held.segments.size()
                      ? lease->held.segments[index].address()
                      : nullptr;
  info->bytes = segment.granted_bytes();
  info->page_size = segment.page_size();
  return HP_OK;
}

size_t hp_lease_extent_count(const hp_lease* lease) {
  return lease->held.fds->size();
}

int hp_lease_extent(const hp_lease* lease, size_t index, hp_extent_info* info) {
  if (info == nullptr || info->size < kExtentInfoV1) {
    return HP_INVALID_ARGUMENT;
  }
  if (index >= hp_lease_extent_count(lease)) return HP_OUT_OF_RANGE;
  const auto& extent = lease->held.lease.extents(static_cast<int>(index));
  info->offset = extent.offset();
  info->bytes = extent.size_bytes();
  info->page_size = extent.page_size();
  info->fd = (*lease->held.fds)[index].get();
  info->segment = extent.segment();
  info->node = extent.node();
  info->seals = extent.seals();
  return HP_OK;
}

hp_standing hp_lease_standing(const hp_lease* lease) {
  switch (lease->connection->Standing(lease->held.lease.lease_id())) {
    case LeaseStanding::kRevoked:
      return HP_STANDING_REVOKED;
    case LeaseStanding::kLost:
      return HP_STANDING_LOST;
    case LeaseStanding::kHeld:
      break;
  }
  return HP_STANDING_HELD;
}

}  // extern "C"
