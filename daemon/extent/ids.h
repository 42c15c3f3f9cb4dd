// Names of the things that the books are about.
#ifndef HUGEPOOL_DAEMON_EXTENT_IDS_H_
#define HUGEPOOL_DAEMON_EXTENT_IDS_H_

#include <cstdint>

#include "daemon/base/strong_id.h"

namespace hugepool {

// A slot of the extent table. Used again for another extent after its end.
using SlotId = StrongId<struct SlotIdTag, uint32_t>;
// An extent: slot and birth number, never used again within a table's life.
using ExtentId = StrongId<struct ExtentIdTag, uint64_t>;
// A lease. Never used again, across restarts too (its upper half is drawn at
// the start of the daemon).
using LeaseId = StrongId<struct LeaseIdTag, uint64_t>;
// A trust domain. 0: none, that is, memory that may serve any domain.
using DomainId = StrongId<struct DomainIdTag, uint32_t>;

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_EXTENT_IDS_H_
