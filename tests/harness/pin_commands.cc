#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "daemon/base/errno_status.h"
#include "tests/harness/hands.h"
#include "tests/harness/pins.h"

namespace hugepool::testing {
namespace {

constexpr uint64_t kLook = 4096;  // bytes looked at through each pin

Pins& PinsOf(Hands& h) {
  if (h.pins == nullptr) h.pins = std::make_unique<Pins>();
  return *h.pins;
}

uint64_t CountForeign(const std::vector<uint64_t>& words, Seed seed) {
  uint64_t foreign = 0;
  for (const uint64_t word : words) foreign += word != 0 && word >> 32 != seed;
  return foreign;
}

// uring_pin as=A: registers the first page of every range as a fixed buffer.
Line UringPin(Hands& h, const Line& in) {
  Pins& pins = PinsOf(h);
  const Memory& m = h.Of(in);
  int failed = io_uring_queue_init(8, &pins.ring, 0);
  if (failed == 0) {
    pins.ring_made = true;
    for (const client::MappedRange& range : m.ranges) {
      for (uint64_t at = 0; at < range.size().value(); at += m.page_size) {
        pins.buffers.push_back({static_cast<char*>(range.address()) + at,
                                std::min<uint64_t>(m.page_size, 1 << 20)});
      }
    }
    failed =
        io_uring_register_buffers(&pins.ring, pins.buffers.data(),
                                  static_cast<unsigned>(pins.buffers.size()));
  }
  if (failed != 0) return Refused(ErrnoToStatus(-failed, "io_uring"));
  return Ok().Set("buffers", static_cast<uint64_t>(pins.buffers.size()));
}

// One transfer between a file and buffer `index`, without any mapping of it.
int Transfer(Pins& pins, int index, int file, bool from_file) {
  io_uring_sqe* const sqe = io_uring_get_sqe(&pins.ring);
  void* const address = pins.buffers[static_cast<size_t>(index)].iov_base;
  if (from_file) {
    io_uring_prep_read_fixed(sqe, file, address, kLook, 0, index);
  } else {
    io_uring_prep_write_fixed(sqe, file, address, kLook, 0, index);
  }
  io_uring_submit(&pins.ring);
  io_uring_cqe* cqe = nullptr;
  const int failed = io_uring_wait_cqe(&pins.ring, &cqe);
  if (failed != 0) return failed;
  const int result = cqe->res;
  io_uring_cqe_seen(&pins.ring, cqe);
  return result;
}

// uring_look seed=N: reads through the ring; words of others.
Line UringLook(Hands& h, const Line& in) {
  Pins& pins = PinsOf(h);
  uint64_t foreign = 0;
  for (size_t i = 0; i < pins.buffers.size(); ++i) {
    const UniqueFd file(memfd_create("look", MFD_CLOEXEC));
    const int n = Transfer(pins, static_cast<int>(i), file.get(), false);
    if (n < 0) return Refused(ErrnoToStatus(-n, "write_fixed"));
    std::vector<uint64_t> words(kLook / 8);
    if (pread(file.get(), words.data(), kLook, 0) < 0) return Failed("pread");
    foreign += CountForeign(words, static_cast<Seed>(in.Number("seed", 1)));
  }
  return Ok().Set("foreign", foreign);
}

// uring_scribble seed=N: writes through the ring.
Line UringScribble(Hands& h, const Line& in) {
  Pins& pins = PinsOf(h);
  std::vector<uint64_t> words(
      kLook / 8, PatternWord(static_cast<Seed>(in.Number("seed", 1)), 7));
  const UniqueFd file(memfd_create("scribble", MFD_CLOEXEC));
  if (pwrite(file.get(), words.data(), kLook, 0) < 0) return Failed("pwrite");
  for (size_t i = 0; i < pins.buffers.size(); ++i) {
    const int n = Transfer(pins, static_cast<int>(i), file.get(), true);
    if (n < 0) return Refused(ErrnoToStatus(-n, "read_fixed"));
  }
  return Ok();
}

// splice_pin as=A: puts the beginning of every page into a pipe.
Line SplicePin(Hands& h, const Line& in) {
  Pins& pins = PinsOf(h);
  const Memory& m = h.Of(in);
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return Failed("pipe2");
  pins.pipe_read.reset(fds[0]);
  pins.pipe_write.reset(fds[1]);
  for (const client::MappedRange& range : m.ranges) {
    for (uint64_t at = 0; at < range.size().value(); at += m.page_size) {
      iovec piece = {static_cast<char*>(range.address()) + at, kLook};
      const ssize_t n =
          vmsplice(pins.pipe_write.get(), &piece, 1, SPLICE_F_NONBLOCK);
      if (n < 0) return Failed("vmsplice");
      pins.piped += static_cast<uint64_t>(n);
    }
  }
  return Ok().Set("bytes", pins.piped);
}

// splice_look seed=N: reads the pipe; words of others.
Line SpliceLook(Hands& h, const Line& in) {
  Pins& pins = PinsOf(h);
  uint64_t foreign = 0;
  while (pins.piped > 0) {
    std::vector<uint64_t> words(kLook / 8);
    const ssize_t n = read(pins.pipe_read.get(), words.data(), kLook);
    if (n <= 0) return Failed("read");
    foreign += CountForeign(words, static_cast<Seed>(in.Number("seed", 1)));
    pins.piped -= std::min(pins.piped, static_cast<uint64_t>(n));
  }
  return Ok().Set("foreign", foreign);
}

// unpin
Line Unpin(Hands& h, const Line&) {
  h.pins.reset();
  return Ok();
}

}  // namespace

void AddPinCommands(CommandTable* table) {
  table->insert({{"uring_pin", UringPin},
                 {"uring_look", UringLook},
                 {"uring_scribble", UringScribble},
                 {"splice_pin", SplicePin},
                 {"splice_look", SpliceLook},
                 {"unpin", Unpin}});
}

}  // namespace hugepool::testing
