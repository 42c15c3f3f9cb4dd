#include "client/hpctl/pool_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/hpctl/table.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {
namespace {

// What was never leased since the daemon started: a target that is too large.
uint64_t NeverLeased(const v1::PoolStatus& p) {
  return OwnedBytes(p) - std::min(OwnedBytes(p), p.leased_high_water_bytes());
}

std::string HitCell(const v1::PoolStatus& p) {
  if (p.grants() == 0) return "-";
  return absl::StrCat(100 * p.hits() / p.grants(), "%");
}

std::string SignedCell(int64_t bytes) {
  if (bytes >= 0) return SizeCell(static_cast<uint64_t>(bytes));
  return absl::StrCat("-",
                      SizeCell(uint64_t{0} - static_cast<uint64_t>(bytes)));
}

std::string ShapesCell(const v1::PoolStatus& p) {
  std::string out;
  for (const auto& shape : p.shapes()) {
    absl::StrAppend(&out, out.empty() ? "" : " ", shape.clean(), "/",
                    shape.wanted(), "x", SizeCell(shape.extent_bytes()));
  }
  return out;
}

void PrintWide(const google::protobuf::RepeatedPtrField<v1::PoolStatus>& pools,
               std::ostream& out) {
  Table table({"NODE", "PAGE", "HIGH WATER", "NEVER LEASED", "GRANTS", "HITS",
               "RETIRED", "CLEARED", "FILLED", "VERIFIED", "STRAY", "KERNEL TOTAL",
               "KERNEL FREE", "UNACCOUNTED", "SHAPES"});
  for (const v1::PoolStatus& p : pools) {
    const bool known = p.kernel().known();
    table.AddRow({absl::StrCat(p.node()), SizeCell(p.page_size()),
                  SizeCell(p.leased_high_water_bytes()),
                  SizeCell(NeverLeased(p)), absl::StrCat(p.grants()),
                  HitCell(p), absl::StrCat(p.retired()),
                  absl::StrCat(p.cleared()), SizeCell(p.filled_bytes()),
                  SizeCell(p.verified_bytes()),
                  absl::StrCat(p.stray_bytes()),
                  known ? SizeCell(p.kernel().total_bytes()) : "?",
                  known ? SizeCell(p.kernel().free_bytes()) : "?",
                  known ? SignedCell(p.kernel().unaccounted_bytes()) : "?",
                  ShapesCell(p)});
  }
  out << "\n";
  table.Print(out);
}

}  // namespace

uint64_t OwnedBytes(const v1::PoolStatus& p) {
  return p.clean_bytes() + p.populating_bytes() + p.granted_bytes() +
         p.held_bytes() + p.returning_bytes() + p.dirty_bytes() +
         p.retiring_bytes() + p.verifying_bytes();
}

void PrintPools(const google::protobuf::RepeatedPtrField<v1::PoolStatus>& pools,
                bool wide, std::ostream& out) {
  Table table({"NODE", "PAGE", "TARGET", "CLEAN", "ZEROING", "GRANTED", "HELD",
               "RETURNING", "DIRTY", "RETIRING", "LIMBO", "WAITERS"});
  for (const v1::PoolStatus& p : pools) {
    table.AddRow({absl::StrCat(p.node()), SizeCell(p.page_size()),
                  SizeCell(p.target_bytes()), SizeCell(p.clean_bytes()),
                  SizeCell(p.populating_bytes()), SizeCell(p.granted_bytes()),
                  SizeCell(p.held_bytes()), SizeCell(p.returning_bytes()),
                  SizeCell(p.dirty_bytes()), SizeCell(p.retiring_bytes()),
                  SizeCell(p.limbo_bytes()), absl::StrCat(p.waiters())});
  }
  table.Print(out);
  if (wide) PrintWide(pools, out);
  for (const v1::PoolStatus& p : pools) {
    if (p.shortfall().empty()) continue;
    const uint64_t owned = OwnedBytes(p);
    const uint64_t missing =
        p.target_bytes() - std::min(p.target_bytes(), owned);
    out << "node " << p.node() << ", " << Bytes(p.page_size())
        << " pages: short of its target";
    if (p.page_size() != 0 && missing != 0) {
      out << " by " << missing / p.page_size() << " pages";
    }
    out << ": " << TextCell(p.shortfall()) << "\n";
  }
}

}  // namespace hugepool::hpctl
