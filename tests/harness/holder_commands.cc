// Ways not to let go of memory.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/errno_status.h"
#include "tests/harness/hands.h"

namespace hugepool::testing {
namespace {

// A child that nobody ends ends itself.
constexpr unsigned kChildSeconds = 240;

volatile uint64_t* WordAt(void* base, uint64_t offset) {
  return reinterpret_cast<volatile uint64_t*>(static_cast<char*>(base) +
                                              offset);
}

// Writes into each page: its first and last word, and one in between.
void Scribble(const Memory& m, Seed seed) {
  for (const client::MappedRange& range : m.ranges) {
    for (uint64_t at = 0; at < range.size().value(); at += m.page_size) {
      *WordAt(range.address(), at) = PatternWord(seed, at / 8);
      *WordAt(range.address(), at + m.page_size / 2) = PatternWord(seed, 1);
      *WordAt(range.address(), at + m.page_size - 8) = PatternWord(seed, 2);
    }
  }
}

// Words in the same places that are neither zero nor the seed's.
uint64_t ForeignWords(const Memory& m, Seed seed) {
  uint64_t foreign = 0;
  for (const client::MappedRange& range : m.ranges) {
    for (uint64_t at = 0; at < range.size().value(); at += m.page_size) {
      for (const uint64_t o : {uint64_t{0}, m.page_size / 2, m.page_size - 8}) {
        const uint64_t word = *WordAt(range.address(), at + o);
        foreign += word != 0 && word >> 32 != seed;
      }
    }
  }
  return foreign;
}

// dup as=A
Line Dup(Hands& h, const Line& in) {
  Memory& m = h.Of(in);
  for (const UniqueFd& fd : m.fds) {
    m.dups.emplace_back(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!m.dups.back().valid()) return Failed("dup");
  }
  return Ok();
}

// map_dups as=A: the dups mapped again, after all else was given up.
Line MapDups(Hands& h, const Line& in) {
  Memory& m = h.Of(in);
  std::vector<client::MapPiece> pieces;
  uint64_t at = 0;
  for (const UniqueFd& fd : m.dups) {
    struct stat st = {};
    if (fstat(fd.get(), &st) != 0) return Failed("fstat");
    m.page_size = static_cast<uint64_t>(st.st_blksize);
    if (st.st_size == 0) continue;
    const auto bytes = static_cast<uint64_t>(st.st_size);
    pieces.push_back({fd.get(), Bytes(at), Bytes(bytes)});
    at += bytes;
  }
  if (at == 0) return Ok().Set("bytes", uint64_t{0});
  auto range = client::MapPieces(
      Bytes(at), *PageSize::FromBytes(Bytes(m.page_size)), pieces, false);
  if (!range.ok()) return Refused(range.status());
  WatchForFaults(*range, m.page_size);
  m.ranges.push_back(*std::move(range));
  return Ok().Set("bytes", at);
}

// In the child of a fork: only system calls, since other threads' locks may be
// held for ever.
[[noreturn]] void BeChild(const Memory& m, const Line& in, Seed seed) {
  alarm(kChildSeconds);
  const bool keep_fds = in.Get("keep", "map") != "map";
  int highest = 0;
  for (const UniqueFd& fd : m.fds) highest = std::max(highest, fd.get());
  for (int fd = 0; fd < 4096; ++fd) {
    if (fd == STDERR_FILENO) continue;
    bool ours = false;
    for (const UniqueFd& own : m.fds) ours |= own.get() == fd;
    if (!(ours && keep_fds)) close(fd);
  }
  while (true) {
    if (in.Has("writes")) Scribble(m, seed);
    usleep(in.Has("writes") ? 200 : 100000);
  }
}

// fork as=A keep=map|fds [writes] seed=N: a child that holds the mapping (and,
// with keep=fds, the descriptors).
Line Fork(Hands& h, const Line& in) {
  const Memory& m = h.Of(in);
  const auto seed = static_cast<Seed>(in.Number("seed", 1));
  const pid_t pid = fork();
  if (pid < 0) return Failed("fork");
  if (pid == 0) BeChild(m, in, seed);
  return Ok().Set("pid", static_cast<uint64_t>(pid));
}

// exec as=A: a child that executes another program and keeps the descriptors.
Line Exec(Hands& h, const Line& in) {
  const Memory& m = h.Of(in);
  std::vector<int> fds;
  for (const UniqueFd& fd : m.fds) fds.push_back(fd.get());
  char name[] = "sleep";
  char time[] = "240";
  char* const argv[] = {name, time, nullptr};
  const pid_t pid = fork();
  if (pid < 0) return Failed("fork");
  if (pid == 0) {
    for (const int fd : fds) fcntl(fd, F_SETFD, 0);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    execv("/bin/sleep", argv);
    _exit(127);
  }
  return Ok().Set("pid", static_cast<uint64_t>(pid));
}

// A name outside the file system: users who share no directory can meet there.
socklen_t Abstract(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.data(),
              std::min(name.size(), sizeof(address->sun_path) - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

// listen at=NAME
Line Listen(Hands& h, const Line& in) {
  sockaddr_un address;
  const socklen_t size = Abstract(in.Get("at"), &address);
  h.listening.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(h.listening.get(), reinterpret_cast<sockaddr*>(&address), size) !=
          0 ||
      listen(h.listening.get(), 8) != 0) {
    return Failed("listen");
  }
  return Ok();
}

// pass as=A to=NAME: sends the descriptors there.
Line Pass(Hands& h, const Line& in) {
  const Memory& m = h.Of(in);
  sockaddr_un address;
  const socklen_t size = Abstract(in.Get("to"), &address);
  const UniqueFd s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(s.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return Failed("connect");
  }
  std::vector<int> fds;
  for (const UniqueFd& fd : m.fds) fds.push_back(fd.get());
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  char byte = 'x';
  iovec piece = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  if (sendmsg(s.get(), &message, 0) != 1) return Failed("sendmsg");
  return Ok();
}

// receive as=A: takes descriptors that were passed; map_dups maps them.
Line Receive(Hands& h, const Line& in) {
  const UniqueFd s(accept4(h.listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!s.valid()) return Failed("accept");
  alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
  char byte;
  iovec piece = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(s.get(), &message, MSG_CMSG_CLOEXEC) != 1) {
    return Failed("recvmsg");
  }
  Memory m;
  const cmsghdr* const c = CMSG_FIRSTHDR(&message);
  if (c == nullptr) return Line("error").Set("code", "NO DESCRIPTORS");
  const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < n; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
    m.dups.emplace_back(fd);
  }
  h.Of(in) = std::move(m);
  return Ok().Set("fds", static_cast<uint64_t>(n));
}

// write_loop as=A loop=L seed=N: writes into every page for ever.
Line WriteLoop(Hands& h, const Line& in) {
  Memory* const m = &h.Of(in);
  const auto seed = static_cast<Seed>(in.Number("seed", 1));
  h.loops[in.Get("loop", "0")] =
      std::make_unique<Loop>([m, seed](Loop*) { Scribble(*m, seed); });
  return Ok();
}

// watch_loop as=A loop=L seed=N: looks for words of others for ever.
Line WatchLoop(Hands& h, const Line& in) {
  Memory* const m = &h.Of(in);
  const auto seed = static_cast<Seed>(in.Number("seed", 1));
  h.loops[in.Get("loop", "0")] = std::make_unique<Loop>(
      [m, seed](Loop* loop) { loop->foreign += ForeignWords(*m, seed); });
  return Ok();
}

// One try to get at memory by a path descriptor that was kept.
void TryPath(int path_fd, uint64_t page_size, Seed seed, Loop* loop) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
  const UniqueFd fd(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return;
  loop->successes.fetch_add(1, std::memory_order_relaxed);
  void* const page =
      mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return;
  uint64_t word = 0;
  // Unlike a touch, a read of a hole or of a truncated file does no harm.
  if (pread(fd.get(), &word, sizeof(word), 0) == sizeof(word)) {
    if (word != 0 && word >> 32 != seed) loop->foreign += 1;
    *WordAt(page, page_size / 2) = PatternWord(seed, 1);
  }
  munmap(page, page_size);
}

// reopen_loop as=A loop=L seed=N: opens by O_PATH descriptors for ever; where
// that works, reads and writes.
Line ReopenLoop(Hands& h, const Line& in) {
  Memory* const m = &h.Of(in);
  for (const UniqueFd& fd : m->fds) {
    const std::string path = absl::StrCat("/proc/self/fd/", fd.get());
    m->paths.emplace_back(open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!m->paths.back().valid()) return Failed("open O_PATH");
  }
  const auto seed = static_cast<Seed>(in.Number("seed", 1));
  h.loops[in.Get("loop", "0")] = std::make_unique<Loop>([m, seed](Loop* loop) {
    for (const UniqueFd& fd : m->paths) {
      TryPath(fd.get(), m->page_size, seed, loop);
    }
  });
  return Ok();
}

// look loop=L, stop loop=L: what the loop has seen.
Line Look(Hands& h, const Line& in) {
  const auto it = h.loops.find(in.Get("loop", "0"));
  if (it == h.loops.end()) return Line("error").Set("code", "NO LOOP");
  return Ok()
      .Set("rounds", it->second->rounds.load())
      .Set("successes", it->second->successes.load())
      .Set("foreign", it->second->foreign.load())
      .Set("faults", Faults());
}

Line Stop(Hands& h, const Line& in) {
  const auto it = h.loops.find(in.Get("loop", "0"));
  if (it == h.loops.end()) return Line("error").Set("code", "NO LOOP");
  it->second->Stop();
  Line out = Look(h, in);
  h.loops.erase(it);
  return out;
}

}  // namespace

void AddHolderCommands(CommandTable* table) {
  table->insert({{"dup", Dup},
                 {"map_dups", MapDups},
                 {"fork", Fork},
                 {"exec", Exec},
                 {"listen", Listen},
                 {"pass", Pass},
                 {"receive", Receive},
                 {"write_loop", WriteLoop},
                 {"watch_loop", WatchLoop},
                 {"reopen_loop", ReopenLoop},
                 {"look", Look},
                 {"stop", Stop}});
}

}  // namespace hugepool::testing
