#include "tests/random/herd.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/errno_status.h"
#include "tests/harness/line.h"
#include "tests/harness/recount.h"
#include "tests/harness/runfile.h"

namespace hugepool::testing {
namespace {

constexpr uint32_t kFirstUid = 65100;

// Half of the clients come through a listener whose memory is cleared in place.
std::string Config() {
  return absl::StrCat(
      "backend: hugetlb\n"
      "listeners:\n"
      "  - {dir: \"@DIR@\", group: \"*\"}\n"
      "  - {dir: \"@DIR@/shared\", group: \"*\", domain: shared}\n"
      "pools:\n"
      "  - {page_size: 2MiB, target: ",
      Herd::kPages2M * 2, "MiB}\n",
      "  - {page_size: 1GiB, target: ", Herd::kPages1G, "GiB}\n",
      "domains: [{name: shared, reuse: in-place}]\n",
      "zeroing: {bandwidth: none}\n", "grants: {acknowledge_within: 1s}\n");
}

}  // namespace

Herd::Herd(HerdOptions options)
    : options_(std::move(options)),
      random_(options_.seed),
      members_(options_.clients) {}

absl::Status Herd::Run() {
  DaemonOptions daemon = {.config = Config(), .as = UnprivilegedDaemon()};
  if (!options_.plant.empty()) {
    daemon.extra_args.push_back("--plant=" + options_.plant);
  }
  HP_ASSIGN_OR_RETURN(daemon_, DaemonProcess::Start(std::move(daemon)));
  const absl::Time end = absl::Now() + options_.length;
  absl::Time checkpoint = absl::Now() + options_.checkpoint_every;
  while (!Done(end)) {
    for (Member& member : members_) {
      if (member.child == nullptr) HP_RETURN_IF_ERROR(StartMember(&member));
      Look(&member);
    }
    KillSome();
    if (absl::Now() > checkpoint) {
      Checkpoint();
      checkpoint = absl::Now() + options_.checkpoint_every;
    }
    poll(nullptr, 0, 1);
  }
  if (daemon_->Alive()) Checkpoint();
  if (!daemon_->Alive()) {
    Violation("the daemon ended");
  } else {
    const absl::Status stopped = daemon_->Stop();
    if (!stopped.ok()) Violation("end of the daemon: " + stopped.ToString());
  }
  if (result_.violations > 0) {
    const std::string log = daemon_->Log();
    std::fprintf(
        stderr, "%s",
        log.substr(log.size() - std::min<size_t>(log.size(), 8192)).c_str());
  }
  return absl::OkStatus();
}

bool Herd::Done(absl::Time end) const {
  return absl::Now() > end || !daemon_->Alive() ||
         (options_.until_violation && result_.violations > 0);
}

absl::Status Herd::StartMember(Member* member) {
  const uint32_t owner = next_owner_++;
  const bool shared = owner % 2 == 0;
  const uint32_t uid = kFirstUid + owner % 5;
  std::vector<std::string> argv = {RunfilePath("tests/random/random_client"),
                                   daemon_->dir() + (shared ? "/shared" : ""),
                                   absl::StrCat(random_()), absl::StrCat(owner),
                                   absl::StrCat(1 + random_() % 40)};
  if (shared) argv.push_back("private");
  HP_ASSIGN_OR_RETURN(member->child,
                      ChildProcess::Start(argv, {.uid = uid, .gid = uid}));
  member->killed = false;
  return absl::OkStatus();
}

void Herd::Look(Member* member) {
  if (member->child == nullptr) return;
  // Looked at first: what it said before its end is then all there.
  const auto ended = member->child->Wait(absl::ZeroDuration());
  while (const auto line = member->child->ReadLine(absl::ZeroDuration())) {
    Hear(*line);
  }
  if (!ended.has_value()) return;
  Bury(member, *ended);
  member->child.reset();
}

void Herd::Hear(const std::string& line) {
  if (absl::StartsWith(line, "lease ")) {
    ++result_.leases;
    result_.bytes_checked += Line::Parse(line).Number("bytes");
  } else if (absl::StartsWith(line, "violation ")) {
    Violation(line.substr(10));
  } else if (absl::StartsWith(line, "refused ") && daemon_->Alive()) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

void Herd::Bury(Member* member, int wait_status) {
  if (!WIFSIGNALED(wait_status)) return;
  if (WTERMSIG(wait_status) == SIGKILL) {
    ++result_.kills;  // by us or by itself
  } else {
    Violation(absl::StrCat("a client got signal ", WTERMSIG(wait_status)));
  }
}

void Herd::KillSome() {
  if (random_() % 40 != 0) return;
  Member& member = members_[random_() % members_.size()];
  if (member.child == nullptr) return;
  member.child->Signal(SIGKILL);
  member.killed = true;
}

void Herd::Checkpoint() {
  ++result_.checkpoints;
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  bool any = true;
  while (any) {
    any = false;
    for (Member& member : members_) {
      if (member.child == nullptr) continue;
      if (absl::Now() > deadline) member.child->Signal(SIGKILL);
      Look(&member);
      any = any || member.child != nullptr;
    }
    poll(nullptr, 0, 1);
  }
  if (!daemon_->Alive()) return;  // noticed at the end of the run
  const std::string wrong = WaitForAllClean(daemon_.get(), absl::Seconds(10));
  if (!wrong.empty()) Violation("checkpoint: " + wrong);
}

void Herd::Violation(const std::string& what) {
  ++result_.violations;
  if (result_.violations <= 20) {
    std::fprintf(stderr, "violation: %s\n", what.c_str());
  }
}

}  // namespace hugepool::testing
