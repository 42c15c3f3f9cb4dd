#include <fcntl.h>

#include <map>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "daemon/service/wire.h"

namespace hugepool::service {
namespace {

// An extent of a lease, as its holder may see it: what the daemon does with it
// in between is told by the pool's figures.
v1::ExtentState StateOf(LeasePhase phase) {
  switch (phase) {
    case LeasePhase::kGranted:
      return v1::EXTENT_STATE_GRANTED;
    case LeasePhase::kHeld:
    case LeasePhase::kOrphaned:
      return v1::EXTENT_STATE_HELD;
    case LeasePhase::kReturning:
      return v1::EXTENT_STATE_RETURNING;
  }
  return v1::EXTENT_STATE_UNSPECIFIED;
}

void FillExtents(const Lease& lease, v1::Lease* out) {
  const uint32_t seals =
      F_SEAL_GROW | F_SEAL_SEAL | (lease.sealed ? F_SEAL_SHRINK : 0);
  out->mutable_extents()->Reserve(static_cast<int>(lease.extents.size()));
  for (const TakenExtent& e : lease.extents) {
    v1::Extent* const extent = out->add_extents();
    extent->set_extent_id(hugepool::ToWire(e.id));
    extent->set_segment(e.segment);
    extent->set_offset(e.offset.value());
    extent->set_size_bytes(e.size.value());
    extent->set_page_size(e.page_size.bytes().value());
    extent->set_node(e.node.value());
    extent->set_origin(static_cast<v1::Origin>(e.origin));
    extent->set_seals(seals);
    extent->set_inode(e.inode);
    extent->set_state(StateOf(lease.phase));
  }
}

void FillShapes(const PoolSnapshot& pool, v1::PoolStatus* out) {
  struct Both {
    uint32_t clean = 0;
    uint32_t wanted = 0;
  };
  std::map<PageCount, Both> shapes;
  for (const auto& [shape, n] : pool.clean) shapes[shape].clean = n;
  for (const auto& [shape, n] : pool.wanted) shapes[shape].wanted = n;
  for (const auto& [shape, both] : shapes) {
    v1::PoolStatus::Shape* const s = out->add_shapes();
    s->set_extent_bytes(pool.config.page_size.Of(shape).value());
    s->set_clean(both.clean);
    s->set_wanted(both.wanted);
  }
}

void FillKernel(const PoolSnapshot& pool, v1::PoolStatus* out) {
  v1::PoolStatus::Kernel* const kernel = out->mutable_kernel();
  kernel->set_known(pool.kernel.has_value());
  if (!pool.kernel.has_value()) return;
  const auto bytes = [&](PageCount pages) {
    return pool.config.page_size.Of(pages).value();
  };
  kernel->set_total_bytes(bytes(pool.kernel->total));
  kernel->set_free_bytes(bytes(pool.kernel->free));
  kernel->set_reserved_bytes(bytes(pool.kernel->reserved));
  kernel->set_surplus_bytes(bytes(pool.kernel->surplus));
  kernel->set_unaccounted_bytes(static_cast<int64_t>(
      bytes(pool.kernel->total) - bytes(pool.kernel->free) -
      bytes(pool.charged)));
}

v1::LeaseEvent EventOf(const LeaseNews& news, const Domains& domains) {
  v1::LeaseEvent event;
  event.set_kind(static_cast<v1::LeaseEvent::Kind>(news.kind));
  event.set_lease_id(hugepool::ToWire(news.lease));
  event.set_domain(domains.NameOf(news.domain));
  event.set_bytes(news.bytes.value());
  return event;
}

v1::ProgressEvent EventOf(const FillProgress& news) {
  v1::ProgressEvent event;
  event.set_node(news.node.value());
  event.set_page_size(news.page_size.bytes().value());
  event.set_clean_bytes(news.clean.value());
  event.set_target_bytes(news.target.value());
  return event;
}

v1::WaitEvent EventOf(const WaitNews& news, const Domains& domains) {
  v1::WaitEvent event;
  event.set_kind(static_cast<v1::WaitEvent::Kind>(news.kind));
  v1::WaitStatus* const wait = event.mutable_wait();
  wait->set_request_id(news.request_id);
  wait->set_domain(domains.NameOf(news.domain));
  wait->set_wanted_bytes(news.wanted.value());
  *wait->mutable_waited() = ToWire(news.waited);
  return event;
}

}  // namespace

google::protobuf::Duration ToWire(absl::Duration d) {
  google::protobuf::Duration out;
  out.set_seconds(absl::IDivDuration(d, absl::Seconds(1), &d));
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(d)));
  return out;
}

google::protobuf::Timestamp ToWire(absl::Time t) {
  google::protobuf::Timestamp out;
  out.set_seconds(absl::ToUnixSeconds(t));
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(
      t - absl::FromUnixSeconds(out.seconds()))));
  return out;
}

v1::Lease ToWire(const Lease& lease, const Domains& domains) {
  v1::Lease out;
  out.set_lease_id(hugepool::ToWire(lease.id));
  out.set_generation(lease.generation);
  out.set_state(static_cast<v1::LeaseState>(lease.phase));
  out.set_lifetime(static_cast<v1::Lifetime>(lease.lifetime));
  out.set_name(lease.name);
  out.mutable_owner()->set_uid(lease.owner.uid);
  out.mutable_owner()->set_gid(lease.owner.gid);
  out.mutable_owner()->set_pid(lease.owner.pid);
  out.set_domain(domains.NameOf(lease.owner.domain));
  *out.mutable_created() = ToWire(lease.created);
  for (const TakenSegment& s : lease.segments) {
    v1::GrantedSegment* const segment = out.add_segments();
    segment->set_granted_bytes(s.granted.value());
    segment->set_page_size(s.page_size.bytes().value());
  }
  FillExtents(lease, &out);
  out.set_charged_bytes(lease.size().value());
  for (const auto& [key, value] : lease.labels) {
    (*out.mutable_labels())[key] = value;
  }
  out.set_sealed(lease.sealed);
  out.set_reopenable(lease.reopenable);
  out.set_private_(lease.is_private);
  if (lease.phase == LeasePhase::kReturning) {
    out.set_reason(absl::StrCat(
        ToString(lease.size()), " in ", lease.extents.size(),
        " extents are still open or mapped somewhere, or being looked at"));
  }
  if (lease.expires != absl::InfiniteFuture()) {
    *out.mutable_expires() = ToWire(lease.expires);
  }
  return out;
}

v1::PoolStatus ToWire(const PoolSnapshot& pool) {
  const PageSize size = pool.config.page_size;
  const auto in = [&](ExtentState s) { return size.Of(pool.in(s)).value(); };
  v1::PoolStatus out;
  out.set_node(pool.config.node.value());
  out.set_page_size(size.bytes().value());
  out.set_target_bytes(size.Of(pool.config.target).value());
  out.set_low_bytes(size.Of(pool.config.low).value());
  out.set_high_bytes(size.Of(pool.config.high).value());
  out.set_clean_bytes(in(ExtentState::kClean));
  out.set_populating_bytes(in(ExtentState::kPopulating) +
                           in(ExtentState::kBare));
  out.set_granted_bytes(in(ExtentState::kGranted) +
                        in(ExtentState::kPreparing));
  out.set_held_bytes(in(ExtentState::kHeld) + in(ExtentState::kSplitting));
  out.set_returning_bytes(in(ExtentState::kReturning) +
                          in(ExtentState::kProbing));
  out.set_dirty_bytes(in(ExtentState::kDirty) + in(ExtentState::kClearing));
  out.set_retiring_bytes(in(ExtentState::kRetiring));
  out.set_limbo_bytes(size.Of(pool.limbo).value());
  out.set_extents(pool.extents);
  out.set_waiters(pool.waiters);
  FillShapes(pool, &out);
  FillKernel(pool, &out);
  out.set_shortfall(pool.shortfall);
  out.set_leased_high_water_bytes(size.Of(pool.leased_high_water).value());
  out.set_grants(pool.grants);
  out.set_hits(pool.hits);
  out.set_retired(pool.retired);
  out.set_cleared(pool.cleared);
  out.set_verifying_bytes(in(ExtentState::kVerifying));
  out.set_verified_bytes(pool.verified.value());
  out.set_stray_bytes(pool.stray);
  out.set_filled_bytes(pool.filled.value());
  out.set_gone_bytes(size.Of(pool.gone).value());
  out.set_split_bytes(pool.split.value());
  out.set_regained_bytes(pool.regained.value());
  return out;
}

v1::DomainStatus ToWire(const DomainView& domain, Bytes returning) {
  v1::DomainStatus out;
  out.set_domain(domain.name);
  out.set_charged_bytes(domain.charged.value());
  out.set_returning_bytes(returning.value());
  out.set_quota_bytes(domain.policy.quota.value());
  out.set_leases(domain.leases);
  out.set_in_place(domain.policy.in_place);
  return out;
}

v1::WaitStatus ToWire(const LeaseManager::WaitView& wait,
                      const Domains& domains) {
  v1::WaitStatus out;
  out.set_request_id(wait.request_id);
  out.set_domain(domains.NameOf(wait.domain));
  out.set_wanted_bytes(wait.wanted.value());
  out.set_available_bytes(wait.available.value());
  out.set_position(wait.position);
  *out.mutable_waited() = ToWire(wait.waited);
  return out;
}

v1::Event ToWire(const News& news, const Domains& domains) {
  v1::Event out;
  if (const auto* lease = std::get_if<LeaseNews>(&news)) {
    *out.mutable_lease() = EventOf(*lease, domains);
  } else if (const auto* wait = std::get_if<WaitNews>(&news)) {
    *out.mutable_wait() = EventOf(*wait, domains);
  } else if (const auto* pool = std::get_if<PoolChanged>(&news)) {
    *out.mutable_pool()->mutable_pool() = ToWire(pool->pool);
  } else if (const auto* progress = std::get_if<FillProgress>(&news)) {
    *out.mutable_progress() = EventOf(*progress);
  } else if (const auto* warning = std::get_if<Warning>(&news)) {
    out.mutable_warning()->set_text(warning->text);
  }
  return out;
}

}  // namespace hugepool::service
