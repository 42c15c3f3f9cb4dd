// One client among many: leases, looks at every byte, fills, checks, and gives
// back, or dies at a point of its own choosing.
//
//   random_client DIR SEED OWNER LEASES [private]
//
// OWNER: a number below 2^20 that no other client of the run has; it stands in
// the patterns, so that memory that two have at a time is seen. Reports a line
// for each lease, "lease bytes=N", and "violation ..." for what must not be.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/internal/errors.h"
#include "client/internal/lease_map.h"
#include "daemon/base/units.h"
#include "tests/harness/pattern.h"
#include "tests/harness/raw_client.h"

namespace hugepool::testing {
namespace {

constexpr uint32_t kLeasesPerOwner = 1 << 12;

struct Options {
  std::string dir;
  uint64_t seed = 0;
  uint32_t owner = 0;
  int leases = 0;
  bool is_private = false;
};

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

class RandomClient {
 public:
  explicit RandomClient(Options options)
      : options_(std::move(options)), random_(options_.seed) {}

  // 0, or 1 where the daemon could not be used.
  int Run();

 private:
  bool Chance(int percent) {
    return Below(100) < static_cast<uint64_t>(percent);
  }
  uint64_t Below(uint64_t n) { return random_() % n; }
  // Dies now and then, as by SIGKILL from outside, and says so before.
  void MayDie(const char* where) {
    if (!Chance(2)) return;
    Say(absl::StrCat("dies ", where));
    raise(SIGKILL);
  }
  v1::AcquireRequest NewRequest();
  // False where the session is not usable any more.
  bool OneLease();
  bool UseGrant(const v1::Lease& lease, RawGrant grant);
  void CheckZero(const v1::Lease& lease, const RawGrant& grant,
                 const std::vector<client::MappedRange>& ranges);
  // Releases some pages, or punches some as it may, and goes on without them.
  // False where the session is not usable any more.
  bool GiveUpSome(const v1::Lease& lease,
                  const std::vector<client::MappedRange>& ranges);
  // Of what it did not give up.
  void CheckPattern(const std::vector<client::MappedRange>& ranges, Seed seed);
  void Violation(const std::string& what) { Say("violation " + what); }

  const Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<RawClient> client_;
  uint32_t lease_number_ = 0;
  uint64_t bytes_ = 0;  // looked at for the lease at hand
  uint64_t page_ = 0;   // of the lease at hand, bytes
  // Pages of it that were given up: segment, and offset in it.
  std::set<std::pair<size_t, uint64_t>> given_up_;
};

int RandomClient::Run() {
  for (int i = 0; i < options_.leases; ++i) {
    if (client_ == nullptr) {
      auto client = RawClient::Connect(options_.dir);
      if (!client.ok()) {
        Say("refused " + client.status().ToString());
        return 1;
      }
      client_ = *std::move(client);
      client_->set_over_fd(Chance(50));
    }
    if (!OneLease()) client_.reset();
  }
  return 0;
}

v1::AcquireRequest RandomClient::NewRequest() {
  const bool gigantic = Chance(3);
  const uint64_t pages = gigantic ? 1 : 1 + Below(Chance(10) ? 40 : 8);
  const PageSize size = gigantic ? k1G : k2M;
  v1::AcquireRequest request = AcquireOf(
      size.Of(PageCount(pages)).value() - Below(2) * 4096, size.bytes().value(),
      absl::Milliseconds(static_cast<int64_t>(Chance(50) ? Below(200) : 0)));
  request.set_request_id(client_->NewRequestId());
  if (Chance(20)) request.mutable_segments(0)->set_max_extents(1);
  if (Chance(20) && !gigantic) {
    v1::Segment* const second = request.add_segments();
    second->set_size_bytes(k2M.Of(PageCount(1 + Below(4))).value());
    second->add_page_sizes(k2M.bytes().value());
  }
  const uint64_t kind = Below(10);
  if (kind == 0) {
    request.set_lifetime(v1::LIFETIME_NAMED);
    request.set_name(absl::StrCat("n", options_.owner, "-", lease_number_));
    request.mutable_time_to_live()->set_seconds(1);
  } else {
    request.set_lifetime(kind < 4 ? v1::LIFETIME_MEMORY : v1::LIFETIME_SESSION);
  }
  request.set_private_(options_.is_private && Chance(80));
  request.set_sealed(Chance(10));
  request.set_reopenable(Chance(10));
  return request;
}

bool RandomClient::OneLease() {
  ++lease_number_;
  bytes_ = 0;
  const v1::AcquireRequest request = NewRequest();
  v1::AcquireResponse response;
  const absl::Status status = client_->Acquire(request, &response);
  if (!status.ok()) {
    switch (status.code()) {
      case absl::StatusCode::kResourceExhausted:
      case absl::StatusCode::kDeadlineExceeded:
        return true;
      case absl::StatusCode::kUnavailable:
        return false;
      default:
        Violation("Acquire: " + status.ToString());
        return false;
    }
  }
  MayDie("before it takes the descriptors");
  auto grant = client_->Collect(request.request_id(), absl::Seconds(10));
  if (!grant.ok()) {
    Violation("Collect: " + grant.status().ToString());
    return false;
  }
  MayDie("before it acknowledges");
  return UseGrant(response.lease(), *std::move(grant));
}

bool RandomClient::UseGrant(const v1::Lease& lease, RawGrant grant) {
  if (Chance(2)) return false;  // hangs up without a word
  if (absl::Status s = client::CheckExtents(lease, grant.fds); !s.ok()) {
    Violation("extents: " + s.ToString());
    return false;
  }
  auto ranges = client::MapLease(lease, grant.fds, false);
  if (!ranges.ok()) {
    Violation("mapping: " + ranges.status().ToString());
    return false;
  }
  CheckZero(lease, grant, *ranges);
  if (!client_->Ack(grant).ok()) return false;
  MayDie("after it acknowledged");
  page_ = lease.segments(0).page_size();
  given_up_.clear();
  const Seed seed = options_.owner * kLeasesPerOwner +
                    (lease_number_ & (kLeasesPerOwner - 1)) + 1;
  uint64_t word = 0;
  for (const client::MappedRange& range : *ranges) {
    FillPattern(range.address(), range.size().value(), seed, word);
    word += range.size().value() / 8;
  }
  if (Chance(30)) usleep(static_cast<useconds_t>(Below(20000)));
  MayDie("while it holds memory");
  if (Chance(30)) {
    if (!GiveUpSome(lease, *ranges)) return false;
    if (Chance(30)) usleep(static_cast<useconds_t>(Below(20000)));
    MayDie("after it gave up parts");
  }
  CheckPattern(*ranges, seed);
  Say(absl::StrCat("lease bytes=", bytes_));
  const bool tell_first = Chance(30);
  if (tell_first) {
    if (!client_->Release(lease.lease_id()).ok()) return false;
    MayDie("after it released, before it let go");
    // Not its any more for the daemon, but nobody else's either.
    if (!lease.private_() || Chance(50)) CheckPattern(*ranges, seed);
  }
  ranges->clear();
  grant.fds.clear();
  if (tell_first) return true;
  if (lease.lifetime() == v1::LIFETIME_MEMORY && Chance(50)) return true;
  const absl::Status released = client_->Release(lease.lease_id());
  // A MEMORY lease may have ended with its descriptors; a NAMED one in time.
  if (!released.ok() && released.code() != absl::StatusCode::kNotFound &&
      released.code() != absl::StatusCode::kUnavailable) {
    Violation("Release: " + released.ToString());
  }
  return released.code() != absl::StatusCode::kUnavailable;
}

void RandomClient::CheckZero(const v1::Lease& lease, const RawGrant& grant,
                             const std::vector<client::MappedRange>& ranges) {
  for (int i = 0; i < lease.extents_size(); ++i) {
    struct stat st = {};
    fstat(grant.fds[static_cast<size_t>(i)].get(), &st);
    if (static_cast<uint64_t>(st.st_blocks) * 512 !=
        lease.extents(i).size_bytes()) {
      Violation(absl::StrCat("extent ", lease.extents(i).extent_id(), " of ",
                             lease.extents(i).size_bytes(), " bytes has ",
                             st.st_blocks * 512));
    }
  }
  for (const client::MappedRange& range : ranges) {
    const uint64_t bad =
        CountNonZeroBytes(range.address(), range.size().value());
    bytes_ += range.size().value();
    if (bad != 0) {
      Violation(
          absl::StrCat(bad, " bytes are not zero in lease ", lease.lease_id()));
    }
  }
}

bool RandomClient::GiveUpSome(const v1::Lease& lease,
                              const std::vector<client::MappedRange>& ranges) {
  const size_t segment = Below(ranges.size());
  char* const start = static_cast<char*>(ranges[segment].address());
  const uint64_t pages = ranges[segment].size().value() / page_;
  const uint64_t first = Below(pages);
  const uint64_t count = 1 + Below(std::min<uint64_t>(4, pages - first));
  for (uint64_t p = first; p < first + count; ++p) {
    given_up_.emplace(segment, p * page_);
  }
  if (Chance(30)) {
    // It may: nobody is told but by the kernel.
    if (madvise(start + first * page_, count * page_, MADV_REMOVE) != 0) {
      Violation(absl::StrCat("punching: errno ", errno));
    }
    return true;
  }
  const absl::Status released =
      client_->ReleasePart(lease.lease_id(), static_cast<uint32_t>(segment),
                           first * page_, count * page_);
  // A NAMED lease may have ended in time already.
  if (!released.ok() && released.code() != absl::StatusCode::kUnavailable &&
      lease.lifetime() != v1::LIFETIME_NAMED) {
    Violation("ReleasePart: " + released.ToString());
  }
  return released.code() != absl::StatusCode::kUnavailable;
}

void RandomClient::CheckPattern(const std::vector<client::MappedRange>& ranges,
                                Seed seed) {
  uint64_t word = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (uint64_t at = 0; at < ranges[i].size().value(); at += page_) {
      if (!given_up_.contains({i, at})) {
        const uint64_t bad =
            CountForeignWords(static_cast<char*>(ranges[i].address()) + at,
                              page_, seed, word);
        bytes_ += page_;
        if (bad != 0) {
          Violation(absl::StrCat(bad, " words are somebody else's"));
        }
      }
      word += page_ / 8;
    }
  }
}

}  // namespace
}  // namespace hugepool::testing

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  signal(SIGPIPE, SIG_IGN);
  hugepool::testing::Options options;
  options.dir = argv[1];
  options.seed = std::strtoull(argv[2], nullptr, 10);
  options.owner = static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10));
  options.leases = std::atoi(argv[4]);
  options.is_private = argc > 5;
  return hugepool::testing::RandomClient(options).Run();
}
