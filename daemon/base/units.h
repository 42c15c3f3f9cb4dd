// Units as types: bytes, pages, page sizes and nodes cannot be mixed up.
//
// No header of hugepool passes a raw size_t of bytes or pages. Arithmetic that
// could overflow on input from outside goes through PageSize::Ceil or ParseBytes;
// the plain operators are for values already known to be sane (they assert).
#ifndef HUGEPOOL_DAEMON_BASE_UNITS_H_
#define HUGEPOOL_DAEMON_BASE_UNITS_H_

#include <bit>
#include <cassert>
#include <compare>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hugepool {

// A number of bytes.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(uint64_t n) : n_(n) {}
  constexpr uint64_t value() const { return n_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    return Bytes(a.n_ + b.n_);
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    assert(a.n_ >= b.n_);
    return Bytes(a.n_ - b.n_);
  }
  friend constexpr Bytes operator*(Bytes a, uint64_t k) {
    return Bytes(a.n_ * k);
  }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }

  template <typename H>
  friend H AbslHashValue(H h, Bytes b) {
    return H::combine(std::move(h), b.n_);
  }

 private:
  uint64_t n_ = 0;
};

inline constexpr Bytes KiB(uint64_t n) { return Bytes(n << 10); }
inline constexpr Bytes MiB(uint64_t n) { return Bytes(n << 20); }
inline constexpr Bytes GiB(uint64_t n) { return Bytes(n << 30); }

// For people: "1 GiB", "2 MiB", "1536 KiB", "17 B": the largest unit of 1024
// that divides the value.
std::string ToString(Bytes b);
std::ostream& operator<<(std::ostream& os, Bytes b);

// Reads "4096", "512K", "64MiB", "1G", "1GiB", "2gb": K, M, G, T are powers of
// 1024. INVALID_ARGUMENT with the text where it is not a size or overflows.
absl::StatusOr<Bytes> ParseBytes(std::string_view text);

// A number of (huge) pages of a size that the context tells.
class PageCount {
 public:
  constexpr PageCount() = default;
  constexpr explicit PageCount(uint64_t n) : n_(n) {}
  constexpr uint64_t value() const { return n_; }

  friend constexpr auto operator<=>(PageCount, PageCount) = default;
  friend constexpr PageCount operator+(PageCount a, PageCount b) {
    return PageCount(a.n_ + b.n_);
  }
  friend constexpr PageCount operator-(PageCount a, PageCount b) {
    assert(a.n_ >= b.n_);
    return PageCount(a.n_ - b.n_);
  }
  friend constexpr PageCount operator*(PageCount a, uint64_t k) {
    return PageCount(a.n_ * k);
  }
  // How many times `b` fits into `a`.
  friend constexpr uint64_t operator/(PageCount a, PageCount b) {
    return a.n_ / b.n_;
  }
  constexpr PageCount& operator+=(PageCount b) { return *this = *this + b; }
  constexpr PageCount& operator-=(PageCount b) { return *this = *this - b; }

  template <typename H>
  friend H AbslHashValue(H h, PageCount p) {
    return H::combine(std::move(h), p.n_);
  }

 private:
  uint64_t n_ = 0;
};

std::ostream& operator<<(std::ostream& os, PageCount p);

// The size of a huge page: a power of two, at least 4 KiB.
class PageSize {
 public:
  // nullopt where `b` is no power of two of at least 4 KiB.
  static constexpr std::optional<PageSize> FromBytes(Bytes b) {
    if (b.value() < 4096 || !std::has_single_bit(b.value())) {
      return std::nullopt;
    }
    return PageSize(static_cast<uint8_t>(std::countr_zero(b.value())));
  }
  static constexpr PageSize FromShift(uint8_t shift) {
    assert(shift >= 12 && shift < 63);
    return PageSize(shift);
  }

  constexpr uint8_t shift() const { return shift_; }
  constexpr Bytes bytes() const { return Bytes(uint64_t{1} << shift_); }
  constexpr Bytes Of(PageCount pages) const {
    return Bytes(pages.value() << shift_);
  }
  // Whole pages in `b`.
  constexpr PageCount Floor(Bytes b) const {
    return PageCount(b.value() >> shift_);
  }
  // Pages needed for `b`; nullopt where rounding up overflows 2^63 bytes.
  constexpr std::optional<PageCount> Ceil(Bytes b) const {
    const uint64_t pages =
        (b.value() >> shift_) + ((b.value() & (bytes().value() - 1)) != 0);
    if (pages > (uint64_t{1} << (63 - shift_)) - 1) return std::nullopt;
    return PageCount(pages);
  }

  friend constexpr auto operator<=>(PageSize, PageSize) = default;
  template <typename H>
  friend H AbslHashValue(H h, PageSize p) {
    return H::combine(std::move(h), p.shift_);
  }

 private:
  constexpr explicit PageSize(uint8_t shift) : shift_(shift) {}
  uint8_t shift_;
};

inline constexpr PageSize k2M = PageSize::FromShift(21);
inline constexpr PageSize k1G = PageSize::FromShift(30);

std::string ToString(PageSize p);
std::ostream& operator<<(std::ostream& os, PageSize p);

// A NUMA node by the kernel's number. Numbers can be sparse.
class NodeId {
 public:
  constexpr NodeId() = default;
  constexpr explicit NodeId(uint32_t n) : n_(n) {}
  constexpr uint32_t value() const { return n_; }
  friend constexpr auto operator<=>(NodeId, NodeId) = default;
  template <typename H>
  friend H AbslHashValue(H h, NodeId n) {
    return H::combine(std::move(h), n.n_);
  }

 private:
  uint32_t n_ = 0;
};

std::ostream& operator<<(std::ostream& os, NodeId n);

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_BASE_UNITS_H_
