// A number that names a thing of one kind. Tag types keep kinds apart.
#ifndef HUGEPOOL_DAEMON_BASE_STRONG_ID_H_
#define HUGEPOOL_DAEMON_BASE_STRONG_ID_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

namespace hugepool {

// Usage: `using LeaseId = StrongId<struct LeaseIdTag, uint64_t>;`
// 0 is never given to a thing: a default-made id names nothing.
template <typename Tag, typename Rep>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : v_(v) {}
  constexpr Rep value() const { return v_; }
  constexpr bool valid() const { return v_ != 0; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.v_);
  }
  friend std::ostream& operator<<(std::ostream& os, StrongId id) {
    return os << id.v_;
  }

 private:
  Rep v_ = 0;
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_STRONG_ID_H_
