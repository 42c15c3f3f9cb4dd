// The usual life of a lease, each step on its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/internal/lease_map.h"
#include "daemon/base/errno_status.h"
#include "tests/harness/hands.h"

namespace hugepool::testing {
namespace {

// connect dir=D: calls go over the fd channel, as the client library's do; with
// over=grpc not.
Line Connect(Hands& h, const Line& in) {
  auto client = RawClient::Connect(
      in.Get("dir"), static_cast<uint32_t>(in.Number("version", 1)),
      in.Get("resume"));
  if (!client.ok()) return Refused(client.status());
  h.client = *std::move(client);
  h.client->set_over_fd(in.Get("over") != "grpc");
  return Ok()
      .Set("domain", h.client->welcome().domain())
      .Set("session", h.client->welcome().session_id());
}

Line HangUp(Hands& h, const Line&) {
  h.client->HangUp();
  return Ok();
}

std::vector<uint64_t> Numbers(const std::string& list) {
  std::vector<uint64_t> numbers;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(list, ',', absl::SkipEmpty()))) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

v1::AcquireRequest RequestOf(Hands& h, const Line& in) {
  v1::AcquireRequest request;
  request.set_request_id(in.Get("request", h.client->NewRequestId()));
  for (const uint64_t bytes : Numbers(in.Get("bytes"))) {
    v1::Segment* const s = request.add_segments();
    s->set_size_bytes(bytes);
    for (uint64_t size : Numbers(in.Get("page"))) s->add_page_sizes(size);
    s->set_max_extents(static_cast<uint32_t>(in.Number("max_extents")));
    for (uint64_t node : Numbers(in.Get("bind"))) {
      s->mutable_placement()->set_mode(v1::PLACEMENT_MODE_BIND);
      s->mutable_placement()->add_nodes(static_cast<uint32_t>(node));
    }
  }
  const uint64_t ms = in.Number("wait");
  if (ms > 0) {
    request.mutable_max_wait()->set_seconds(static_cast<int64_t>(ms / 1000));
    request.mutable_max_wait()->set_nanos(
        static_cast<int32_t>(ms % 1000 * 1000000));
  }
  const std::string lifetime = in.Get("lifetime", "session");
  request.set_lifetime(lifetime == "memory"  ? v1::LIFETIME_MEMORY
                       : lifetime == "named" ? v1::LIFETIME_NAMED
                                             : v1::LIFETIME_SESSION);
  request.set_name(in.Get("name"));
  request.set_sealed(in.Has("sealed"));
  request.set_reopenable(in.Has("reopenable"));
  request.set_private_(in.Has("private"));
  return request;
}

// Maps what came, as the client library does.
absl::Status Map(Memory* m) {
  HP_RETURN_IF_ERROR(client::CheckExtents(m->lease, m->fds));
  HP_ASSIGN_OR_RETURN(m->ranges, client::MapLease(m->lease, m->fds, false));
  for (const client::MappedRange& range : m->ranges) {
    WatchForFaults(range, m->page_size);
  }
  return absl::OkStatus();
}

Line TakeGrant(Hands& h, const Line& in, const std::string& request_id,
               const v1::Lease& lease) {
  auto grant = h.client->Collect(request_id, absl::Seconds(10));
  if (!grant.ok()) return Refused(grant.status());
  Memory m;
  m.lease = lease;
  m.generation = grant->generation;
  m.page_size = lease.extents_size() > 0 ? lease.extents(0).page_size() : 0;
  m.fds = std::move(grant->fds);
  if (!in.Has("nomap")) {
    if (absl::Status status = Map(&m); !status.ok()) return Refused(status);
  }
  if (!in.Has("noack")) {
    RawGrant ack;
    ack.lease_id = grant->lease_id;
    ack.generation = grant->generation;
    if (absl::Status s = h.client->Ack(ack); !s.ok()) return Refused(s);
  }
  uint64_t granted = 0;
  for (const auto& segment : lease.segments()) {
    granted += segment.granted_bytes();
  }
  bool in_place = false;
  for (const auto& extent : lease.extents()) {
    in_place |= extent.origin() == v1::ORIGIN_CLEARED_IN_PLACE;
  }
  Line out = Ok();
  out.Set("lease", lease.lease_id())
      .Set("granted", granted)
      .Set("extents", static_cast<uint64_t>(lease.extents_size()))
      .Set("page", m.page_size)
      .Set("in_place", uint64_t{in_place})
      .Set("domain", lease.domain());
  h.Of(in) = std::move(m);
  return out;
}

// acquire as=A bytes=N,N page=P,P wait=MS lifetime=L name=N [private] [sealed]
//   [reopenable] [noack] [nomap] [rpc_only] max_extents=N bind=NODE,...
Line Acquire(Hands& h, const Line& in) {
  if (h.client == nullptr) return Line("error").Set("code", "NOT CONNECTED");
  const v1::AcquireRequest request = RequestOf(h, in);
  v1::AcquireResponse response;
  if (absl::Status s = h.client->Acquire(request, &response); !s.ok()) {
    return Refused(s);
  }
  if (in.Has("rpc_only")) {
    return Ok().Set("lease", response.lease().lease_id());
  }
  return TakeGrant(h, in, request.request_id(), response.lease());
}

// attach as=A name=N
Line Attach(Hands& h, const Line& in) {
  v1::AttachRequest request;
  request.set_request_id(h.client->NewRequestId());
  request.set_name(in.Get("name"));
  v1::AttachResponse response;
  if (absl::Status s = h.client->Attach(request, &response); !s.ok()) {
    return Refused(s);
  }
  return TakeGrant(h, in, request.request_id(), response.lease());
}

// end as=A: the call only; what is open and mapped stays.
Line End(Hands& h, const Line& in) {
  const std::string id = in.Get("lease", h.Of(in).lease.lease_id());
  if (absl::Status s = h.client->Release(id); !s.ok()) return Refused(s);
  return Ok();
}

// unmap as=A
Line Unmap(Hands& h, const Line& in) {
  h.Of(in).ranges.clear();
  return Ok();
}

// close as=A: the descriptors that came; dups and mappings stay.
Line Close(Hands& h, const Line& in) {
  h.Of(in).fds.clear();
  return Ok();
}

// drop as=A: everything of it.
Line Drop(Hands& h, const Line& in) {
  h.memories.erase(in.Get("as", "0"));
  return Ok();
}

// release as=A: drop and end, as the library does.
Line Release(Hands& h, const Line& in) {
  const std::string id = h.Of(in).lease.lease_id();
  Drop(h, in);
  const absl::Status s = h.client->Release(id);
  // Where the daemon has let go of its own descriptor, a lease ends with the
  // holder's last one.
  if (absl::IsNotFound(s)) return Ok().Set("gone", uint64_t{1});
  return s.ok() ? Ok() : Refused(s);
}

// steal dir=D secret=HEX: asks for memory with the session of somebody else.
Line Steal(Hands&, const Line& in) {
  RawCalls calls(in.Get("dir"));
  v1::AcquireRequest request = AcquireOf(in.Number("bytes"), 0);
  request.set_request_id("stolen");
  v1::AcquireResponse response;
  const absl::Status s =
      calls.Call(&v1::HugePool::Stub::Acquire,
                 absl::HexStringToBytes(in.Get("secret")), request, &response);
  return s.ok() ? Ok() : Refused(s);
}

// fill as=A seed=N
Line Fill(Hands& h, const Line& in) {
  uint64_t first = 0;
  for (const client::MappedRange& range : h.Of(in).ranges) {
    FillPattern(range.address(), range.size().value(),
                static_cast<Seed>(in.Number("seed", 1)), first);
    first += range.size().value() / 8;
  }
  return Ok().Set("faults", Faults());
}

// check as=A seed=N: words that are not the pattern's.
Line Check(Hands& h, const Line& in) {
  uint64_t first = 0;
  uint64_t foreign = 0;
  for (const client::MappedRange& range : h.Of(in).ranges) {
    foreign +=
        CountForeignWords(range.address(), range.size().value(),
                          static_cast<Seed>(in.Number("seed", 1)), first);
    first += range.size().value() / 8;
  }
  return Ok().Set("foreign", foreign).Set("faults", Faults());
}

// zero as=A: bytes that are not zero.
Line Zero(Hands& h, const Line& in) {
  uint64_t nonzero = 0;
  uint64_t bytes = 0;
  for (const client::MappedRange& range : h.Of(in).ranges) {
    nonzero += CountNonZeroBytes(range.address(), range.size().value());
    bytes += range.size().value();
  }
  return Ok()
      .Set("nonzero", nonzero)
      .Set("bytes", bytes)
      .Set("faults", Faults());
}

// nofile limit=N: descriptors that are open and N more.
Line NoFile(Hands&, const Line& in) {
  UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto base = static_cast<uint64_t>(next.get());
  const rlimit limit = {base + in.Number("more"), base + in.Number("more")};
  next.reset();
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return Failed("setrlimit");
  return Ok();
}

}  // namespace

void AddLeaseCommands(CommandTable* table) {
  table->insert({{"connect", Connect},
                 {"hangup", HangUp},
                 {"acquire", Acquire},
                 {"attach", Attach},
                 {"end", End},
                 {"unmap", Unmap},
                 {"close", Close},
                 {"drop", Drop},
                 {"release", Release},
                 {"steal", Steal},
                 {"fill", Fill},
                 {"check", Check},
                 {"zero", Zero},
                 {"nofile", NoFile}});
}

}  // namespace hugepool::testing
