#include "tests/harness/client_process.h"

#include <signal.h>

#include "tests/harness/runfile.h"

namespace hugepool::testing {

absl::StatusOr<std::unique_ptr<ClientProcess>> ClientProcess::Start(
    const RunAs& as) {
  auto child =
      ChildProcess::Start({RunfilePath("tests/harness/test_client")}, as);
  if (!child.ok()) return child.status();
  std::unique_ptr<ClientProcess> client(new ClientProcess);
  client->child_ = *std::move(child);
  if (Line hello = client->Answer(); !hello.ok()) {
    return absl::UnavailableError("test_client did not start: " + hello.Text());
  }
  return client;
}

ClientProcess::~ClientProcess() {
  KillChildren();
  Kill();
}

Line ClientProcess::Ask(const Line& line, absl::Duration timeout) {
  Say(line);
  return Answer(timeout);
}

void ClientProcess::Say(const Line& line) { child_->WriteLine(line.Text()); }

Line ClientProcess::Answer(absl::Duration timeout) {
  const auto text = child_->ReadLine(timeout);
  if (!text.has_value()) {
    const bool ended = child_->Wait(absl::ZeroDuration()).has_value();
    return Line("error")
        .Set("code", "GONE")
        .Set("message",
             ended ? "the client ended" : "the client does not answer");
  }
  Line line = Line::Parse(*text);
  if (line.Has("pid")) children_.insert(static_cast<pid_t>(line.Number("pid")));
  return line;
}

void ClientProcess::KillChildren() {
  for (const pid_t pid : children_) {
    if (pid > 1) kill(pid, SIGKILL);
  }
  children_.clear();
}

}  // namespace hugepool::testing
