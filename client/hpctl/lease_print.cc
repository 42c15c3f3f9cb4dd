#include "client/hpctl/lease_print.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/hpctl/json_output.h"
#include "client/hpctl/table.h"
#include "daemon/base/units.h"

namespace hugepool::hpctl {
namespace {

template <typename Enum>
std::string Name(Enum value) {
  const auto* v =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return v != nullptr ? EnumName(v) : "?";
}

void PrintExtents(const v1::Lease& lease, const std::vector<std::string>& paths,
                  std::ostream& out) {
  std::vector<std::string> heading = {"SEGMENT", "OFFSET", "SIZE",
                                      "PAGE",    "NODE",   "ORIGIN"};
  if (!paths.empty()) heading.push_back("PATH");
  Table table(heading);
  for (int i = 0; i < lease.extents_size(); ++i) {
    const v1::Extent& e = lease.extents(i);
    std::vector<std::string> row = {
        absl::StrCat(e.segment()), ToString(Bytes(e.offset())),
        SizeCell(e.size_bytes()),  SizeCell(e.page_size()),
        absl::StrCat(e.node()),    Name(e.origin())};
    if (!paths.empty()) row.push_back(paths[i]);
    table.AddRow(std::move(row));
  }
  if (!table.empty()) table.Print(out);
}

}  // namespace

uint64_t TotalSize(const v1::Lease& lease) {
  uint64_t total = 0;
  for (const auto& segment : lease.segments()) {
    total += segment.granted_bytes();
  }
  return total;
}

void PrintLease(const v1::Lease& lease, const std::vector<std::string>& paths,
                std::ostream& out) {
  out << "lease     " << TextCell(lease.lease_id()) << "\n"
      << "state     " << Name(lease.state()) << "\n";
  if (!lease.reason().empty()) {
    out << "because   " << TextCell(lease.reason()) << "\n";
  }
  out << "lifetime  " << Name(lease.lifetime()) << "\n";
  if (!lease.name().empty())
    out << "name      " << TextCell(lease.name()) << "\n";
  out << "size      " << SizeCell(TotalSize(lease)) << " in "
      << lease.segments_size() << " segments, " << lease.extents_size()
      << " extents\n"
      << "domain    " << TextCell(lease.domain()) << "\n"
      << "owner     uid " << lease.owner().uid() << ", gid "
      << lease.owner().gid();
  if (lease.owner().pid() != 0) out << ", pid " << lease.owner().pid();
  out << "\n";
  if (lease.has_created()) {
    out << "age       " << AgeCell(absl::Now() - FromProto(lease.created()))
        << "\n";
  }
  if (lease.has_expires()) {
    out << "expires   in " << AgeCell(FromProto(lease.expires()) - absl::Now())
        << "\n";
  }
  std::string flags;
  if (lease.sealed()) flags += " sealed";
  if (lease.reopenable()) flags += " reopenable";
  if (lease.private_()) flags += " private";
  if (!flags.empty()) out << "flags    " << flags << "\n";
  for (const auto& [key, value] : lease.labels()) {
    out << "label     " << TextCell(key) << "=" << TextCell(value) << "\n";
  }
  PrintExtents(lease, paths, out);
}

}  // namespace hugepool::hpctl
