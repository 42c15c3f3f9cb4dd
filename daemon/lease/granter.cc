#include "daemon/lease/granter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"

namespace hugepool {

absl::StatusOr<UniqueFd> Granter::OpenOne(const Lease& lease, SlotId slot) {
  sys::HugeFile* file = files_->Get(slot);
  if (file == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToWire(lease.id),
                     ": its descriptors were let go (this kernel has no way to "
                     "ask for holders), so they cannot be sent again"));
  }
  if (lease.phase == LeasePhase::kGranted) {
    // Seals first: no holder ever sees a file that it could grow or seal.
    HP_RETURN_IF_ERROR(file->Seal({.shrink = lease.sealed}));
    // What is retired in the end needs no tripwire.
    if (watch_ != nullptr) {
      HP_RETURN_IF_ERROR(watch_->SetTripwire(*file, lease.in_place));
    }
  }
  HP_ASSIGN_OR_RETURN(UniqueFd fd, file->OpenForHolder());
  if (lease.phase == LeasePhase::kGranted) {
    // The description is opened before the owner changes: the other way round
    // the open itself could be refused.
    if (lease.reopenable) {
      HP_RETURN_IF_ERROR(file->GiveInode(lease.owner.uid, lease.owner.gid));
    } else if (lease.in_place) {
      // Sets the mode it has already: the ATTRIB event keeps the watch from
      // merging our opening with one by the holder, so that the tripwire holds.
      HP_RETURN_IF_ERROR(file->TakeInodeBack());
    }
  }
  return fd;
}

absl::StatusOr<uint32_t> Granter::Grant(const Lease& lease, SessionId session,
                                        const std::string& request_id) {
  std::vector<UniqueFd> fds;
  fds.reserve(lease.extents.size());
  for (const TakenExtent& e : lease.extents) {
    HP_ASSIGN_OR_RETURN(UniqueFd fd, OpenOne(lease, e.slot));
    fds.push_back(std::move(fd));
  }
  const auto total = static_cast<uint32_t>(fds.size());
  const uint32_t parts = (total + kMaxFdsPerFrame - 1) / kMaxFdsPerFrame;
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t first = part * kMaxFdsPerFrame;
    const uint32_t last = std::min(total, first + kMaxFdsPerFrame);
    GrantFrame frame;
    frame.request_id = request_id;
    frame.lease = lease.id;
    frame.generation = lease.generation;
    frame.part = part;
    frame.parts = parts;
    frame.first_extent = first;
    for (uint32_t i = first; i < last; ++i) {
      frame.fds.push_back(std::move(fds[i]));
    }
    HP_RETURN_IF_ERROR(sender_->SendGrant(session, std::move(frame)));
  }
  return parts;
}

}  // namespace hugepool
